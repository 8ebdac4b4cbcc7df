"""The From files tab: what `parley init` asks is asked there in its sentences, and the answers are the command that one
would type."""

import html
import json
import re
import shutil

import pytest

pytest.importorskip("starlette", reason="the extra parley-dp[studio] is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
import numpy as np
import pandas as pd
from studio_client import PROOF, enter, stranger_at, studio_at

from parley.errors import SettingError
from parley.report.words import interview as words
from parley.studio.file_pages import init_command
from parley.studio.interview_form import MAX_SHOWN_COLUMNS
from parley.terms.catalogue import THREE_HOST_SWITCHES, kinds_from_files

SECRETS = ("93417", "blacksmith")  # cells of private tables


def people(rows, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"person_id": range(rows), "age": rng.integers(18, 90, rows), "job": "clerk", "pay": 3.5})
    return frame.assign(ill=rng.choice(["no", "yes"], rows))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("files")
    north, south = people(40, 1), people(30, 2)
    north.loc[3, "pay"], south.loc[2, "job"] = 93417, "blacksmith"
    north.to_csv(place / "north.csv", index=False)
    south.to_csv(place / "south.csv", index=False)
    south.to_parquet(place / "typed.parquet", index=False)
    people(50, 3).to_csv(place / "public.csv", index=False)
    (place / "link.csv").hardlink_to(place / "north.csv")
    return place


@pytest.fixture(scope="module")
def client(folder):
    return enter(stranger_at(studio_at(folder)))


TABLES = [("table", "north.csv"), ("table", "south.csv")]
FORM = [*TABLES, ("target", "pay"), ("kind", "linear-regression"), ("epsilon", "1"), ("write", "made")]


def said(*answers, features=("age", "job", "ill")):
    """A form's fields: of each column (name, low, high, names)."""
    given = {name: more for name, *more in answers}
    fields = []
    for place, column in enumerate(("person_id", "age", "job", "pay", "ill")):
        low, high, names = given.get(column, ("", "", ""))
        fields += [(f"column.{place}", column), (f"low.{place}", low), (f"high.{place}", high)]
        fields += [(f"names.{place}", names), *([(f"feature.{place}", "on")] if column in features else [])]
    return fields


def asked(client, *fields):
    form = {}
    for key, value in fields:
        form.setdefault(key, []).append(value)
    answer = client.post("/files/columns", data=form, headers=PROOF)
    assert answer.status_code == 200
    return answer.text


def options(folder, *fields):
    command = init_command(studio_at(folder), list(fields))
    return command[command.index("--epsilon") + 2 : -1]


def test_the_page_asks_what_the_terminal_asks_in_the_same_sentences(client, folder):
    page = client.get("/files").text + asked(client, *TABLES, ("target", "pay"), ("person", "person_id"))
    for sentence in (words.EPSILON, words.DELTA, words.PERSON, words.PERSON_ROWS, words.HOSTS, words.MISSING):
        assert sentence in page
    assert words.SPREAD in html.unescape(page)
    assert {*words.kinds_in_words()} == {*kinds_from_files()}
    for kind, sentence in words.kinds_in_words().items():
        assert f'<option value="{kind}">{sentence} ({kind})</option>' in page
    assert words.EVENT in asked(client, *TABLES, ("kind", "survival"))
    assert words.EXPOSURE in asked(client, *TABLES, ("kind", "poisson-regression"))
    two = asked(client, *TABLES, ("target", "ill"), ("kind", "logistic-regression"))
    assert words.TWO_NAMES.format(target="ill") in two


def test_columns_are_asked_for_without_a_look_at_private_cells(client, folder):
    page = asked(client, *TABLES, ("target", "pay"))
    assert re.findall('name="column.[0-9]+" value="([^"]+)"', page) == ["person_id", "age", "job", "pay", "ill"]
    ticked = re.findall(r'name="feature.([0-9])" checked', page)
    assert ticked == ["1", "2", "4"]  # neither who somebody is, nor what is predicted
    assert page.count("type not declared") == 5
    assert not [secret for secret in (*SECRETS, "clerk", "18", "89") if secret in page]
    typed = asked(client, ("table", "typed.parquet"))
    kinds = re.findall(r'</strong> <span class="quiet small">(\w+)<', typed)
    assert kinds == ["numbers", "numbers", "names", "numbers", "names"]


def test_what_three_hosts_may_also_do_is_offered_with_its_cost(client):
    page = asked(client, *TABLES, ("check_answers", "on"))
    boxes = {
        key: f'name="{key}"{checked} aria' for key, checked in (("hosts_may_cheat", ""), ("check_answers", " checked"))
    }
    assert set(boxes) == set(THREE_HOST_SWITCHES)
    for key, facts in THREE_HOST_SWITCHES.items():
        assert boxes[key] in page
        assert facts.cost in html.unescape(page)


def test_dates_have_a_format_and_a_range_of_dates(folder):
    """What the terminal takes as --dates and --bounds is typed beside the column."""
    given = options(folder, *FORM, *said(("age", "2015-01-01", "2024-12-31", "%d/%m/%Y")))
    assert given[given.index("--dates") + 1] == "age=%d/%m/%Y"
    assert given[given.index("--bounds") + 1] == "age=2015-01-01,2024-12-31"
    with pytest.raises(SettingError, match="age, low"):
        options(folder, *FORM, *said(("age", "2024-12-31", "2015-01-01", "")))


def test_a_public_sample_is_none_of_the_owners_tables_and_only_it_leaves_the_kind_open(client, folder):
    page = asked(client, *TABLES, ("public", "north.csv"))
    sample = page[page.index('<select id="public"') : page.index("</select>")]
    assert re.findall("<option[^>]*>([^<]+)", sample) == ["none", "link.csv", "public.csv", "typed.parquet"]
    for alias in ("north.csv", "./north.csv", "link.csv"):
        assert "as the public sample has it" not in asked(client, *TABLES, ("public", alias))
    with pytest.raises(SettingError, match="Parley reads the kind only from a public sample"):
        options(folder, *(each for each in FORM if each[0] != "kind"))
    page = asked(client, *TABLES, ("public", "public.csv"))
    assert "as the public sample has it" in page
    assert "The public sample fills every field" in page
    assert "type not declared" not in page
    form = [(key, "" if key == "kind" else value) for key, value in FORM]
    given = options(folder, *form, ("public", "public.csv"))
    assert given == ["--public", str(folder / "public.csv")]


def test_answers_are_the_options_that_one_would_type(folder):
    assert options(folder, *FORM, *said()) == ["--kind", "linear-regression", "--features", "age,job,ill"]
    known = (("age", "18", "100", ""), ("job", "", "", "clerk,nurse"), ("pay", "0", "1e5", ""), ("ill", "", "", "x"))
    answers = said(*known, features=("age", "job"))
    more = [("person", "person_id"), ("records_per_person", "2"), ("hosts", "a,b,c"), ("missing", "refuse")]
    assert options(folder, *FORM, *answers, *more) == [
        *("--kind", "linear-regression", "--person", "person_id", "--records-per-person", "2"),
        *("--hosts", "a,b,c", "--missing", "refuse", "--features", "age,job"),
        *("--bounds", "age=18,100", "--categories", "job=clerk,nurse", "--bounds", "pay=0,1e5"),
    ]
    ticked = [("hosts", "a,b,c"), ("hosts_may_cheat", "on"), ("check_answers", "on")]
    assert options(folder, *FORM, *ticked)[2:] == ["--hosts", "a,b,c", "--hosts-may-cheat", "--check-answers"]
    form = [*TABLES, ("target", "ill"), ("kind", "logistic-regression"), ("epsilon", "1"), ("write", "made")]
    told = options(folder, *form, *said(("ill", "", "", "no, yes"), features=("age", "job", "pay")))
    shown = ["--kind", "logistic-regression", "--features", "age,job,pay"]
    assert told == [*shown, "--categories", "ill=no, yes", "--positive", "yes"]


def test_a_name_with_a_comma_stays_one_name(client, folder):
    typed = '"Professional, Technical", Clerical,5" nails'
    assert words.listed(typed) == ("Professional, Technical", "Clerical", '5" nails')
    assert words.listed(words.as_list(words.listed(typed))) == words.listed(typed)
    assert words.listed(" a, ,b ") == ("a", "b")
    told = options(folder, *FORM, *said(("job", "", "", typed), features=("age", "job")))
    assert told[-2:] == ["--categories", f"job={typed}"]
    assert "Professional, Technical" in html.unescape(asked(client, *TABLES, ("target", "pay")))


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (said(("job", "", "", '"clerk,nurse')), "job.*separate names by commas"),
        (said(("age", "18", "", "")), "age, high: expected a number"),
        (said(("age", "100", "18", "")), "the low end must be below"),
        (said(("age", "1", "2", "a,b")), "a range or names, not both"),
        (
            [*said(features=("age",)), ("target", "ill"), ("kind", "logistic-regression")],
            "ill: missing: the two names in ill",
        ),
        *(
            ([*said(("ill", "", "", names)), ("target", "ill"), ("kind", "logistic-regression")], words.NOT_TWO_MESSAGE)
            for names in ("yes", "no,yes,perhaps", "yes,yes")
        ),
        (said(("age", "1_8", "100", "")), "age, low: expected a number"),
        (said(features=()), "at least one column to learn from"),
        ([("check_answers", "on"), ("hosts", "a,b")], "hosts: enter the names of three hosts"),
        ([("kind", "anything")], "kind of target: expected one of"),
        ([("public", "north.csv")], "one of the owners'"),
        ([("public", "./north.csv")], "one of the owners'"),
        ([("public", "link.csv")], "one of the owners'"),
        ([("write", "../made")], "expected a file in the studio's folder"),
        ([("target", "")], "target: missing"),
    ],
)
def test_a_wrong_answer_is_one_sentence_and_starts_nothing(client, folder, answer, sentence):
    with pytest.raises(SettingError, match=sentence):
        options(folder, *FORM, *answer)
    form = {"table": ["north.csv"], **dict(FORM[2:])}
    assert "at least two" in client.post("/files/make", data=form, headers=PROOF).text
    assert not list(folder.glob(".jobs/*"))


def test_what_was_said_can_be_changed_after_a_job(client, folder):
    form = [*FORM, *said(("age", "18", "100", ""), features=("age",)), ("hosts", "<b>,south"), ("table", "gone.csv")]
    kept = folder / ".jobs" / "20300101-000000-abc"
    kept.mkdir(0o700, parents=True)
    (kept / "command.json").write_text(json.dumps({"command": ["init"], "title": "Terms", "form": form}))
    (kept / "exit.json").write_text('{"code": 2}')
    address = re.search(r"/files/again/[^\"]+", client.get(f"/jobs/{kept.name}").text).group(0)
    page = client.get(address).text
    assert re.findall(r'value="([^"]+)" checked', page) == ["north.csv", "south.csv"]
    assert 'value="18"' in page
    assert 'value="&lt;b&gt;,south"' in page
    assert re.findall(r'name="feature.([0-9])" checked', page) == ["1"]
    assert '<option value="linear-regression" selected>' in page
    shutil.rmtree(folder / ".jobs")


def test_very_many_columns_are_shown_some_of_them(client, folder):
    wide = pd.DataFrame([[1] * (MAX_SHOWN_COLUMNS + 7)], columns=[f"c{n}" for n in range(MAX_SHOWN_COLUMNS + 7)])
    wide.to_csv(folder / "wide.csv", index=False)
    page = asked(client, ("table", "wide.csv"))
    assert page.count('name="column.') == MAX_SHOWN_COLUMNS
    assert "7 more columns are not shown" in page
    (folder / "wide.csv").unlink()


@pytest.mark.parametrize("line", ["Alice Smith,HIV,42,1990-02-03", "age,2019,pay"])
def test_a_first_line_that_may_be_a_record_is_neither_shown_nor_learned_from(client, folder, line):
    for name in ("first", "second"):
        (folder / f"{name}.csv").write_text(f"{line}\n" * 3)
    tables = [("table", "first.csv"), ("table", "second.csv")]
    page = asked(client, *tables)
    assert "first.csv: the first line has numbers" in page
    assert not [cell for cell in line.split(",") if f'value="{cell}"' in page]
    with pytest.raises(SettingError, match="the first line has numbers"):
        options(folder, *tables, *FORM[2:], ("column.0", "age"), ("feature.0", "on"))
    for name in ("first", "second"):
        (folder / f"{name}.csv").unlink()
