"""Manual pages: one for every command, with all its options, and nothing that `man` would stumble over."""

import re
import shutil
import subprocess

import pytest

from parley.cli.app import PART_BY_COMMAND
from parley.cli.man import EXIT_CODES, man_pages


@pytest.fixture(scope="module")
def pages():
    return man_pages()


def commands():
    for name, part in PART_BY_COMMAND.items():
        command = part.load()
        yield f"parley-{name}", command
        yield from ((f"parley-{name}-{inner}", found) for inner, found in getattr(command, "commands", {}).items())


def test_every_command_has_a_page_with_all_its_options(pages):
    found = dict(commands())
    assert set(pages) == {"parley.1", *(f"{name}.1" for name in found)}
    assert len(pages) > 50
    for name, command in found.items():
        page = pages[f"{name}.1"].replace("\\-", "-")
        assert f"\n{name} - " in page.replace("\\", ""), name
        for option in command.params:
            assert all(word in page for word in option.opts if word.startswith("-")), (name, option.name)


def test_every_page_says_what_exit_codes_mean_and_where_it_belongs(pages):
    for name, page in pages.items():
        for code, text in EXIT_CODES.items():
            assert f".B {code}\n{text[:4]}" in page, name
        assert ".SH SEE ALSO\n.BR parley" in page or name == "parley.1"
    assert ".SH SEE ALSO\n.BR parley\\-owner (1)\n" in pages["parley-owner-accept.1"]
    assert "parley\\-owner\\-accept(1)" in pages["parley-owner.1"]


def test_no_line_is_taken_for_a_request_by_mistake(pages):
    known = {".TH", ".SH", ".PP", ".TP", ".B", ".BR", ".nf", ".fi"}
    for name, page in pages.items():
        assert {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))} <= known, name
        assert re.sub(r"\\[-e&]", "", page).count("\\") == 0, name


def test_man_shows_them_without_complaint(pages, tmp_path):
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    for name, page in pages.items():
        (tmp_path / name).write_text(page, encoding="utf-8")
    shown = subprocess.run(
        ["groff", "-man", "-Kutf8", "-Tutf8", "-ww", *sorted(pages)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stderr == ""
    assert shown.stdout.count("The user interrupted the command from the keyboard.") == len(pages)
