"""The folder for what an account's programs must remember: whose it is, and what is refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from parley.durable import state_folder
from parley.errors import StateFolderError


@pytest.fixture
def _no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARLEY_STATE")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)


@pytest.mark.usefixtures("_no_setting")
def test_it_is_named_or_the_accounts_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert state_folder() == tmp_path / "home" / ".local" / "state" / "parley"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # the specification ignores those
    assert state_folder("ledgers") == tmp_path / "home" / ".local" / "state" / "parley" / "ledgers"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state_folder() == tmp_path / "xdg" / "parley"
    monkeypatch.setenv("PARLEY_STATE", str(tmp_path / "named"))
    assert state_folder("a", "b") == tmp_path / "named" / "a" / "b"
    for made in (tmp_path / "named", tmp_path / "named" / "a", tmp_path / "named" / "a" / "b", tmp_path / "home"):
        assert made.stat().st_mode & 0o777 == 0o700


def test_links_files_and_folders_open_to_others_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    monkeypatch.setenv("PARLEY_STATE", str(state))
    state_folder()
    (tmp_path / "elsewhere").mkdir()
    (state / "linked").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateFolderError, match="is a link"):
        state_folder("linked", "below")
    (state / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StateFolderError, match="is a link"):
        state_folder("dangling")
    assert not (tmp_path / "nowhere").exists()
    (state / "file").touch()
    with pytest.raises(StateFolderError, match="expected a folder"):
        state_folder("file")
    for mode in (0o720, 0o702):
        state.chmod(mode)
        with pytest.raises(StateFolderError, match="chmod go-w"):
            state_folder("more")
    monkeypatch.setenv("PARLEY_STATE", "state")
    with pytest.raises(StateFolderError, match="absolute"):
        state_folder()


def test_a_folder_of_another_account_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLEY_STATE", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StateFolderError, match="another account"):
        state_folder()


@pytest.mark.usefixtures("_no_setting")
def test_a_home_that_cannot_hold_it_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "not-a-folder").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "not-a-folder"))
    with pytest.raises(StateFolderError, match="set PARLEY_STATE"):
        state_folder()
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError()))
    with pytest.raises(StateFolderError, match="set PARLEY_STATE"):
        state_folder()


def test_tests_and_their_subprocesses_leave_the_developers_state_alone() -> None:
    code = "from parley.durable import state_folder; print(state_folder())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(state_folder()) == os.environ["PARLEY_STATE"]
