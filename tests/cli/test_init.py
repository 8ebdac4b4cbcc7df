"""From two CSV files that nobody here has seen to a released model with a score, in a few commands."""

import inspect
import io
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from samples import data_path, patients
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.cli.init import init_command
from parley.decisions.from_files.known_columns import Wishes
from parley.decisions.from_files.terms_from_files import Draft, draft
from parley.errors import DataError, SettingError
from parley.learning.outcome.verdict import LEAST_GAIN
from parley.protocol.setup import resolve
from parley.report.terminal import Terminal
from parley.terms import write_terms
from parley.terms.catalogue import MODELS, THREE_HOST_SWITCHES, kinds_from_files
from parley.workflows.draft import draft_to_learn_by, pinned_beside
from parley.workflows.interview import typed_wishes
from parley.workflows.person import Nobody

# planted in private rows alone: a name, a range's ends, a person
SECRETS = ("blacksmith", "987654", "P-north-17", "-41.375")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("init")
    north, south = patients(4000, 1, "north"), patients(3000, 2, "south")
    north.loc[3, "job"], north.loc[4, "income"], south.loc[5, "age"] = "blacksmith", 987654.0, -41.375
    north.to_csv(folder / "north clinic.csv", index=False)
    south.to_csv(folder / "south.csv", index=False, sep=";")
    patients(300, 3, "public").drop(columns="patient_id").to_csv(folder / "public.csv", index=False)
    return folder


def invoke(*arguments, **options):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], **options)


def tables(folder):
    return folder / "north clinic.csv", folder / "south.csv"


@pytest.fixture(scope="module")
def written(files):
    """One command from files to terms."""
    run = invoke(
        "init",
        *tables(files),
        "--target",
        "outcome",
        "--public",
        files / "public.csv",
        "--columns",
        "lines",
        "--write",
        files / "terms.toml",
        "--yes",
    )
    assert run.exit_code == 0, (run.output, run.exception)
    return run


def test_init_says_how_to_get_one_noise_only_where_that_is_clearly_better(files, written):
    declared = ("--features", "age,income", "--positive", "yes", "--bounds", "age=0,100", "--bounds", "income=0,100000")
    small = ("--epsilon", 0.1, "--columns", "lines", "--write", files / "small.toml", "--yes")
    tight = invoke("init", *tables(files), "--target", "outcome", *declared, *small)
    for run, clearly in ((written, False), (tight, True)):
        said = re.sub(r"\s+", " ", run.output)
        costs = re.search(
            r"test cost of the joint model: ([\d.]+) with each owner's own noise, ([\d.]+) with shared noise", said
        )
        assert float(costs[2]) < float(costs[1])
        assert (float(costs[2]) < (1 - LEAST_GAIN) * float(costs[1])) == clearly, costs[0]
        assert ("--hosts north-clinic,south,learner" in said) == clearly


def test_files_become_a_released_and_scored_model_in_four_commands(files, written):
    """init, train, score, predict; no file is edited by hand, and nothing of private rows is in a file that leaves."""
    terms = parley.load_terms(files / "terms.toml")
    ledgers = ("--ledgers", files / "ledgers", "--lifetime", 1, "--lifetime-delta", 1e-6)
    train = invoke(
        "train",
        files / "terms.toml",
        *ledgers,
        "--force",  # so few rows
        "--save",
        files / "model.json",
        "--report",
        files / "page.html",
        "--json",
    )
    assert train.exit_code == 0, (train.output, train.exception)
    content = json.loads(train.stdout)
    assert content["released"]
    assert [owner["epsilon_spent"] for owner in content["owners"]] == [1.0, 1.0]
    assert set(content["baselines"]) == {"zero", "public_sample"}
    score = invoke("score", files / "model.json", files / "terms.toml", "--owner", "south", "--json")
    assert score.exit_code == 0, (score.output, score.exception)
    assert json.loads(score.stdout)["together"]["auc"] > 0.7
    predict = invoke("predict", files / "model.json", files / "south.csv", "--out", files / "predicted.csv", "--json")
    assert predict.exit_code == 0, (predict.output, predict.exception)
    assert set(json.loads(predict.stdout)["classes"]) == {"diseased", "healthy"}
    predicted = pd.read_csv(files / "predicted.csv")
    assert (predicted["predicted_outcome"] == predicted["outcome"]).mean() > 0.6
    assert np.allclose(predicted["probability_diseased"] + predicted["probability_healthy"], 1.0)
    assert {"diseased", "healthy"} == set(terms.model.categories["outcome"])
    for leaving in ("terms.toml", "model.json", "page.html"):
        text = (files / leaving).read_text()
        assert not [secret for secret in SECRETS if secret in text], leaving
    assert not [secret for secret in SECRETS if secret in written.output + train.output]


def test_a_release_says_what_it_left_and_what_comes_next(files, written):
    """And that the same command again costs nothing."""
    ledgers = ("--ledgers", files / "books", "--lifetime", 1, "--lifetime-delta", 1e-6, "--other-books", "a test")
    train = invoke("train", files / "terms.toml", *ledgers, "--force", "--save", files / "again.json")
    again = invoke("train", files / "terms.toml", *ledgers, "--save", files / "again.json")
    assert "Done: the model is the same as before" in " ".join(again.output.split())
    said = " ".join(train.output.split())
    assert "Done: the model is released" in said
    assert "again.json" in said[said.index("Written:") :]
    assert "south.ledger" in said[said.index("Written:") :]
    assert "remaining lifetime ε = 0" in said
    assert "parley score" in said[said.index("Next:") :]


def test_the_terms_are_planned_and_teach(files, written):
    text = (files / "terms.toml").read_text()
    terms = parley.load_terms(files / "terms.toml")
    assert terms.model.kind == "logistic-regression"
    assert terms.model.positive == "diseased"  # the rarer of the two in the public sample
    assert terms.model.coding == "one-hot"
    assert terms.model.missing == "fill"
    assert terms.model.features == ("age", "income", "job", "smoker")
    assert [(part.name, part.records) for part in terms.owners] == [("north-clinic", 4000), ("south", 3000)]
    assert "# most that all answers together may reveal about a person" in text
    assert "patient_id" in written.output
    assert "Parley read only the column names" in " ".join(written.output.split())
    assert "Planned:" in text
    delta = f" --lifetime-delta {1.2 * terms.privacy.delta:g}" if terms.privacy.delta > 0 else ""
    assert f"--lifetime 1.2{delta} --save" in written.stderr


def test_numbers_that_hang_on_the_machine_are_pinned_beside_the_terms(files, written):
    """Where the plan turns features, the file lies beside the terms and is what they say; else there is none."""
    terms = parley.load_terms(files / "terms.toml")
    assert (files / "terms.preparation.json").exists() is (terms.model.whitening is not None)
    assert (terms.model.preparation_sha256 is not None) is (terms.model.whitening is not None)
    plain = terms.changed(model={"whitening": "public", "preparation": None, "preparation_sha256": None})
    made, path = pinned_beside(Draft(plain, ()), files / "turned.toml")
    assert path == files / "turned.preparation.json"
    write_terms(made.terms, files / "turned.toml")
    again = parley.load_terms(files / "turned.toml")
    assert again.hash == made.terms.hash != plain.hash
    np.testing.assert_array_equal(resolve(again).preparation.rotation, resolve(plain).preparation.rotation)
    assert pinned_beside(Draft(terms.changed(model={"whitening": None}), ()), files / "none.toml")[1] is None


def test_pin_writes_terms_that_pin(files, written):
    run = invoke("pin", files / "terms.toml", "--write", files / "pinned.toml", "--json")
    assert run.exit_code == 0, (run.output, run.exception)
    told = json.loads(run.stdout)
    assert told["terms_hash"] == parley.load_terms(files / "pinned.toml").hash
    assert (files / "pinned.preparation.json").exists()
    (files / "pinned.preparation.json").write_text("{}")
    refused = invoke("train", files / "pinned.toml")
    assert isinstance(refused.exception, DataError)
    assert "SHA-256 differs from model.preparation_sha256" in str(refused.exception)


def test_terms_between_organisations_are_drafted_without_anybodys_table(files, tmp_path):
    """Owners by name and size; the next commands are theirs; the lifetime leaves room for what may be asked first."""
    public = pd.read_csv(files / "public.csv")[["age", "income", "outcome"]].dropna()
    public["seen"] = [f"{1 + place % 12}/{1 + place % 7}/2021" for place in range(len(public))]
    public.to_csv(tmp_path / "public.csv", index=False)
    given = ("init", "--public", tmp_path / "public.csv", "--owner", "bank-a=25000", "--owner", "bank-b=9000,0.5")
    more = ("--target", "outcome", "--columns", "lines", "--write", tmp_path / "t.toml", "--delta", 0)
    refused = invoke(*given, *more, "--yes")
    assert "say which: --dates seen=%d/%m/%Y or --dates seen=%m/%d/%Y" in str(refused.exception)
    public.rename(columns={"seen": "last seen"}).to_csv(tmp_path / "spaced.csv", index=False)
    spaced = invoke("init", "--public", tmp_path / "spaced.csv", *given[3:], *more, "--yes")
    assert "say which: --dates 'last seen=%d/%m/%Y' or" in str(spaced.exception)  # as a shell takes it
    run = invoke(*given, *more, "--epsilon", 1, input="\n\n\n%m/%d/%y\n%m/%d/%Y\n")  # person, hosts, missing, how
    assert run.exit_code == 0, (run.output, run.exception)
    terms = parley.load_terms(tmp_path / "t.toml")
    assert terms.model.dates == {"seen": "%m/%d/%Y"}
    assert [(part.name, part.records, part.epsilon, part.data) for part in terms.owners] == [
        ("bank-a", 25000, 1.0, None),
        ("bank-b", 9000, 0.5, None),
    ]
    said = re.sub(r"\s+", " ", run.output)
    assert "Parley read no private file." in said
    assert "parley owner init bank-a --name bank-a --table TABLE --lifetime 1.2 " in said
    assert "parley train" not in said


DECLARED = (
    *("--bounds", "age=18,100", "--bounds", "income=0,100000"),
    *(
        "--categories",
        "job=nurse,clerk,baker",
        "--categories",
        "smoker=yes,no",
        "--categories",
        "outcome=diseased,healthy",
    ),
)


def test_without_a_public_sample_what_is_declared_suffices(files, tmp_path):
    """Ranges and names come from flags; the kinds of columns are then not read either, and the plan rests on invented
    rows."""
    options = (
        "--target",
        "outcome",
        "--positive",
        "diseased",
        "--features",
        "age,income,job,smoker",
        "--columns",
        "lines",
        "--delta",
        0,
        "--yes",
    )
    run = invoke("init", *tables(files), *options, *DECLARED, "--epsilon", 2, "--write", tmp_path / "terms.toml")
    assert run.exit_code == 0, (run.output, run.exception)
    terms = parley.load_terms(tmp_path / "terms.toml")
    assert terms.model.public is None
    assert terms.model.scales["age"] == pytest.approx(82 / 4)
    assert terms.privacy.scale_epsilon is None
    said = " ".join(run.output.split())
    assert "Parley read only the column names" in said
    assert "invented rows" in said
    assert not [secret for secret in SECRETS if secret in (tmp_path / "terms.toml").read_text()]
    trained = json.loads(invoke("train", tmp_path / "terms.toml", "--seed", 1, "--json").stdout)
    assert trained["metrics"]["auc"] > 0.7


def test_what_nobody_says_is_asked_with_noise_and_kinds_become_public(files, tmp_path):
    options = ("--target", "outcome", "--positive", "diseased", "--bounds", "age=18,100", "--yes")
    run = invoke("init", *tables(files), *options, "--write", tmp_path / "terms.toml")
    assert run.exit_code == 0, (run.output, run.exception)
    terms = parley.load_terms(tmp_path / "terms.toml")
    assert terms.privacy.scale_epsilon == pytest.approx(0.2)
    said = " ".join(run.output.split())
    assert re.search(
        r"these columns contain numbers or names: income, job, smoker\. The terms make the kinds of columns public",
        said,
    )
    assert "parley column-stats" in run.stderr
    assert not [secret for secret in SECRETS if secret in (tmp_path / "terms.toml").read_text() + run.output]


HEART = (
    *("--bounds", "age=25,80", "--bounds", "trestbps=90,200", "--bounds", "chol=100,450", "--bounds", "thalach=70,200"),
    *("--bounds", "oldpeak=-1,5", "--bounds", "ca=0,3", "--categories", "sex=0,1", "--categories", "cp=1,2,3,4"),
    *(
        "--categories",
        "fbs=0,1",
        "--categories",
        "restecg=0,1,2",
        "--categories",
        "exang=0,1",
        "--categories",
        "slope=1,2,3",
    ),
    *("--categories", "thal=3,6,7"),
)


def test_four_hospitals_with_missing_cells_left_in(tmp_path):
    """One command from files to terms, one to a model: 920 rows, what a doctor knows of the ranges, and nothing
    public."""
    hospitals = [data_path(f"heart_{name}.csv") for name in ("cleveland", "hungarian", "switzerland", "va")]
    options = ("--target", "num", "--positive", "0", "--epsilon", 1, "--delta", 1e-6, "--holdout", 0.25, "--yes")
    run = invoke("init", *hospitals, *options, *HEART, "--write", tmp_path / "terms.toml")
    assert run.exit_code == 0, (run.output, run.exception)
    trained = json.loads(invoke("train", tmp_path / "terms.toml", "--replicates", 40, "--seed", 1, "--json").stdout)
    assert trained["metrics"]["auc"] > 0.84


def test_people_are_asked_what_only_they_know(files, tmp_path):
    """Epsilon, delta, who is who, who hosts, whether cells are missing; here no plan is needed to see it."""
    options = ("--target", "outcome", "--positive", "diseased", "--write", tmp_path / "terms.toml", "--force")
    answers = "0.5\n1e-7\npatient_id\n2\nnorth-clinic,south,notary\ny\nn\nn\n" + "\n" * 4  # no range of any column
    run = invoke("init", *tables(files), *options, input=answers)
    assert run.exit_code == 0, (run.output, run.exception)
    terms = parley.load_terms(tmp_path / "terms.toml")
    assert {part.epsilon for part in terms.owners} == {0.5}
    assert terms.privacy.delta == 1e-7
    assert (terms.privacy.person, terms.privacy.records_per_person) == ("patient_id", 2)
    assert [host.name for host in terms.hosts] == ["north-clinic", "south", "notary"]
    assert (terms.privacy.hosts_may_cheat, terms.privacy.check_answers) == (True, None)
    assert terms.model.missing == "refuse"


def test_scales_that_would_tell_little_are_refused_unless_people_say_more(files, monkeypatch):
    """What nobody has said is asked once more; who says nothing then gets no terms."""
    features = ("age", "income")
    wishes = Wishes("outcome", epsilon=0.05, positive="diseased", features=features, bounds={"age": (18, 100)})
    for answer in ("", "0,2e5"):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
        if answer:
            model = draft_to_learn_by(tables(files), wishes, Terminal(), asks=True, anyway=False).terms.model
            assert model.bounds == {"age": (18, 100), "income": (0, 2e5)}
            continue
        with pytest.raises(
            SettingError,
            match=r"No range or names are stated for these columns: income\. Declare all .* No terms were written",
        ):
            draft_to_learn_by(tables(files), wishes, Terminal(), asks=True, anyway=False)
    for epsilon, helps in ((0.005, False), (0.05, True)):
        with pytest.raises(SettingError, match="No terms were written") as refused:
            draft_to_learn_by(tables(files), replace(wishes, epsilon=epsilon), Nobody(), asks=False, anyway=False)
        assert ("--force writes them" in str(refused.value)) == helps
    with pytest.raises(SettingError, match=r"written$"):
        draft_to_learn_by(tables(files), replace(wishes, epsilon=0.005), Nobody(), asks=False, anyway=True)


def test_questions_without_answers_name_the_way_out(files, tmp_path):
    """Nobody is at the keyboard: a script, or a build."""
    run = invoke("init", *tables(files), "--target", "outcome", "--write", tmp_path / "t.toml", input="")
    assert isinstance(run.exception, SettingError)
    assert "give --yes or the options that answer the questions" in str(run.exception)


@pytest.mark.parametrize("names", ["diseased", "healthy,diseased,other", "diseased,diseased"])
def test_two_names_are_two(files, tmp_path, names):
    options = ("--target", "outcome", "--kind", "logistic-regression", "--write", tmp_path / "t.toml")
    run = invoke("init", *tables(files), *options, input=f"{names}\n")
    assert isinstance(run.exception, SettingError)
    assert "enter two different names" in str(run.exception)


@pytest.mark.parametrize(
    ("answer", "kind", "jobs"),
    [("", "logistic-regression", ""), ("boosted-classification", "boosted-classification", "nurse,clerk")],
)
def test_without_a_public_sample_people_say_kind_names_and_ranges(files, tmp_path, answer, kind, jobs):
    """The guess is by whether the target holds names; what is left open is asked for with noise."""
    answers = ["a tree", answer, "healthy,diseased", "", "", "", "", "", "18,100", "0,2e5", jobs, "no,yes"]
    options = ("--target", "outcome", "--features", "age,income,job,smoker", "--columns", "lines")
    run = invoke(
        "init", *tables(files), *options, "--write", tmp_path / "t.toml", input="".join(f"{each}\n" for each in answers)
    )
    assert run.exit_code == 0, (run.output, run.exception)
    model = parley.load_terms(tmp_path / "t.toml").model
    assert (model.kind, model.positive) == (kind, "diseased")
    assert model.bounds == {"age": (18.0, 100.0), "income": (0.0, 2e5)}
    assert model.categories["smoker"] == ("no", "yes")
    assert ("job" in model.categories) is bool(jobs)
    assert "outcome contains names" in run.output
    assert re.search(r"contain numbers or names: [^.]*outcome\.", (tmp_path / "t.toml").read_text())


KINDS = {
    "poisson-regression": ("--target", "age", "--features", "income,smoker", "--bounds", "age=0,100"),
    "survival": ("--target", "age", "--event", "smoker", "--periods", "30,60", "--features", "income,job"),
    "number": ("--target", "age", "--features", "income,job,smoker"),
    "two classes": ("--target", "outcome", "--positive", "diseased", "--features", "age,income,job,smoker"),
    "classes": ("--target", "outcome", "--categories", "outcome=healthy,diseased", "--features", "age,income,smoker"),
}


@pytest.mark.parametrize("kind", kinds_from_files())
@pytest.mark.parametrize("known", ["declared", "public"])
def test_every_kind_that_init_offers_becomes_terms(files, kind, known):
    """Drafted from declared ranges and from a public sample; of trees a public sample says the ranges."""
    told = KINDS.get(kind) or KINDS[MODELS[kind].predicts]
    bounds = {"age": (18.0, 100.0), "income": (0.0, 2e5)} if known == "declared" or kind == "poisson-regression" else {}
    option = dict(zip(told[::2], told[1::2], strict=True))
    bounds = {column: ends for column, ends in bounds.items() if kind != "survival" or column != option["--target"]}
    named = {"job": ("nurse", "clerk"), "smoker": ("no", "yes")} if known == "declared" else {}
    named = {column: names for column, names in named.items() if column in option["--features"]}
    named |= {"outcome": ("healthy", "diseased")} if "--categories" in option else {}
    wishes = Wishes(
        target=option["--target"],
        kind=kind,
        public=None if known == "declared" else files / "public.csv",
        features=tuple(option["--features"].split(",")),
        bounds=bounds,
        categories=named,
        positive=option.get("--positive"),
        event=option.get("--event"),
        periods=tuple(map(float, option["--periods"].split(","))) if "--periods" in option else (),
    )
    made = draft(tables(files), wishes)
    assert (made.terms.model.kind, made.terms.privacy.scale_epsilon) == (kind, None)
    assert made.terms.model.missing == "fill"
    refusing = draft(tables(files), replace(wishes, missing="refuse")).terms.model
    assert refusing.missing == "refuse"
    assert made.terms.title.endswith("learned by north-clinic and south")


@pytest.mark.parametrize(
    ("options", "kind", "match"),
    [
        (("--target", "outcome", "--kind", "echo-state"), SettingError, "terms for it are written by hand"),
        (
            ("--target", "age", "--kind", "boosted-regression"),
            SettingError,
            "expected ranges or names for income, job, smoker, outcome, age; boosted trees split only within",
        ),
        (("--target", "outcom"), DataError, "column 'outcom' is missing; did you mean 'outcome'"),
        (("--target", "outcome"), SettingError, "--kind: without a public sample, Parley cannot tell what kind"),
        (("--target", "outcome", "--kind", "tree"), SettingError, "--kind tree: expected one of linear-regression"),
        (("--target", "outcome", "--missing", "drop"), SettingError, "--missing: expected fill or refuse"),
        (("--target", "outcome", "--bounds", "age=1"), SettingError, "expected COLUMN=LOW,HIGH"),
        (
            ("--target", "outcome", "--bounds", "agee=1,2"),
            DataError,
            "--bounds: column 'agee' is missing; did you mean 'age'",
        ),
        (
            ("--target", "outcome", "--kind", "logistic-regression", "--records-per-person", "3"),
            SettingError,
            "--records-per-person: needs --person",
        ),
        (("--target", "outcome", "--public", "south.csv"), DataError, "is the private table"),
    ],
)
def test_mistakes_are_sentences(files, tmp_path, options, kind, match):
    options = [files / option if option.endswith(".csv") else option for option in options]
    run = invoke("init", *tables(files), *options, "--write", tmp_path / "terms.toml", "--yes")
    assert isinstance(run.exception, kind)
    assert match in str(run.exception)
    assert not (tmp_path / "terms.toml").exists()


NO_WISHES = {"files", "write", "uri", "query", "query_file", "order_by", "to", "ask_password", "anyway", "yes", "seed"}
NO_WISHES |= {"as_json"}  # of init's parameters: what it reads itself


@pytest.mark.parametrize(
    ("hosts", "options", "wished"),
    [
        ("north-clinic,south", ("--draw", "together"), {"draw": "together"}),
        ("north-clinic,south,notary", ("--hosts-may-cheat",), {"hosts_may_cheat": True}),
        ("north-clinic,south,notary", ("--check-answers",), {"check_answers": True}),
    ],
)
def test_no_option_of_init_is_dropped(files, monkeypatch, hosts, options, wished):
    """What the command passes on is read as a wish, every key of it: two hosts that draw together once were not."""
    read, passed = set(), []

    class Recorded(dict):
        def __getitem__(self, key):
            read.add(key)
            return super().__getitem__(key)

    def seen(every, write, person, typed, **others):
        passed.append((set(typed), typed_wishes(Recorded(typed))))
        raise SettingError("seen")

    monkeypatch.setattr("parley.workflows.draft.draft_terms", seen)
    words = ("init", *tables(files), "--target", "outcome", "--write", files / "hosted.toml", "--yes")
    assert str(invoke(*words, "--hosts", hosts, *options).exception) == "seen"
    ((keys, wishes),) = passed
    assert keys == read == set(inspect.signature(init_command).parameters) - NO_WISHES
    usual = {"draw": None, "hosts_may_cheat": False, "check_answers": False}
    assert {key: getattr(wishes, key) for key in usual} == {**usual, **wished}


@pytest.mark.parametrize(
    ("hosts", "options", "keys"),
    [
        ("north-clinic,south", ("--draw", "together"), {"draw": "together"}),
        ("north-clinic,south,notary", ("--check-answers",), {"check_answers": True}),
    ],
)
def test_what_hosts_do_is_written(files, hosts, options, keys):
    words = (
        "init",
        *tables(files),
        "--target",
        "outcome",
        "--public",
        files / "public.csv",
        "--features",
        "age,income",
    )
    drawn = ("--hosts", hosts, *options, "--delta", 1e-6, "--columns", "lines")
    made = invoke(*words, *drawn, "--write", files / "hosted.toml", "--yes")
    assert made.exit_code == 0, made.output
    terms = parley.load_terms(files / "hosted.toml")
    usual = {"draw": None, "hosts_may_cheat": None, "check_answers": None}
    assert {key: getattr(terms.privacy, key) for key in usual} == {**usual, **keys}
    assert terms.noise.paired == ("draw" in keys)
    said = re.sub(r"\s+", " ", made.output)
    for key, facts in THREE_HOST_SWITCHES.items():  # offered unless chosen, where there are three hosts
        assert (f"privacy.{key}: {facts.cost}." in said) == (len(terms.hosts) == 3 and key not in keys)


def test_next_steps_suit_an_agreement_of_which_one_table_is_here(files):
    """The other owner's table is elsewhere, so nothing can be trained on this machine alone."""
    ranges = [word for column in ("age", "income") for word in ("--bounds", f"{column}=0,100000")]
    words = ("init", files / "south.csv", "--owner", "harbour=2000", "--target", "outcome", "--features", "age,income")
    made = invoke(*words, "--positive", "yes", *ranges, "--columns", "lines", "--write", files / "half.toml", "--yes")
    assert made.exit_code == 0, made.output
    said = re.sub(r"\s+", " ", made.output)
    assert "parley owner init south --name south --table" in said
    assert "parley learner run" in said
    assert "parley train" not in said
