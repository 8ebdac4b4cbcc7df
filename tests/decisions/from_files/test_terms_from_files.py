from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from samples import patients

import parley
from parley.data.fitting import fit_preparation
from parley.decisions.from_files.column_choice import evidence_per_column
from parley.decisions.from_files.known_columns import Wishes
from parley.decisions.from_files.terms_from_files import draft, owner_names, planned
from parley.errors import DataError, SettingError, TermsError
from parley.protocol.setup import resolve


@pytest.fixture
def folder(tmp_path):
    patients(60, 1, "north").to_csv(tmp_path / "north.csv", index=False)
    patients(50, 2, "south").to_parquet(tmp_path / "south.parquet")
    patients(80, 3, "public").dropna().drop(columns="patient_id").to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


def files(folder):
    return [folder / "north.csv", folder / "south.parquet"]


def of_public(folder, target, **wishes):
    return draft(files(folder), Wishes(target, folder / "public.csv", **wishes)).terms


@pytest.mark.parametrize(
    ("target", "kind", "positive"),
    [
        ("income", "linear-regression", None),
        ("outcome", "logistic-regression", "diseased"),  # the rarer of the two
        ("job", "softmax-regression", None),
    ],
)
def test_the_model_follows_from_the_targets_public_rows(folder, target, kind, positive):
    found = of_public(folder, target)
    assert (found.model.kind, found.model.positive) == (kind, positive)
    assert of_public(folder, "job", positive="baker").model.kind == "logistic-regression"


def test_what_the_terms_say_does_not_hang_on_private_cells(folder):
    """Other rows of the same number under the same names, of other kinds even: the same terms."""
    wishes = Wishes("outcome", folder / "public.csv")
    before = draft(files(folder), wishes)
    other = patients(60, 11, "elsewhere").assign(age="unheard of", income="blacksmith", smoker=-987654.5)
    other.to_csv(folder / "north.csv", index=False)
    after = draft(files(folder), wishes)
    assert after.terms.hash == before.terms.hash
    assert after.said == before.said
    assert after.terms.model.public_sha256 is not None


def test_without_a_public_sample_declared_columns_are_not_looked_at(folder):
    declared = {
        "bounds": {"age": (18.0, 100.0), "income": (0.0, 1e5)},
        "categories": {"job": ("nurse", "clerk"), "smoker": ("yes", "no"), "outcome": ("healthy", "diseased")},
        "features": ("age", "income", "job", "smoker"),
    }
    before = draft(files(folder), Wishes("outcome", **declared))
    patients(60, 11, "elsewhere").assign(age="unheard of").to_csv(folder / "north.csv", index=False)
    after = draft(files(folder), Wishes("outcome", **declared))
    assert before.terms.hash == after.terms.hash
    assert "Parley read only the column names" in before.said[0]
    assert before.terms.model.centres == {"age": 59.0, "income": 5e4}
    assert before.terms.privacy.scale_epsilon is None


DECLARED = {
    "bounds": {"age": (18.0, 100.0), "income": (0.0, 1e5)},
    "categories": {"smoker": ("yes", "no")},
    "features": ("age", "smoker"),
}


@pytest.mark.parametrize(("epsilon", "kind"), [(1.0, "linear-regression"), (100.0, "boosted-regression")])
def test_without_a_public_sample_the_usual_kind_hangs_on_what_is_heard_of_each_column(folder, epsilon, kind):
    """Lines where noise leaves little, boosted trees from there on; it is said what nobody can judge, what the other
    kind is called, and what would settle it. Both train."""
    made = planned(draft(files(folder), Wishes("income", epsilon=epsilon, **DECLARED)))
    assert made.terms.model.kind == kind
    other = "--columns lines" if kind == "boosted-regression" else "--kind boosted-regression"
    assert other in made.said[-1]
    assert "Only a release of both kinds, each debited, settles it" in made.said[-1]
    assert (made.proposal is None) is (kind == "boosted-regression")
    owners = [parley.Owner(part.name, file) for part, file in zip(made.terms.owners, files(folder), strict=True)]
    assert parley.train(made.terms, owners, seed=1, measure=False).model is not None


@pytest.mark.parametrize(
    "said",
    [{"kind": "linear-regression"}, {"columns": "lines"}, {"score_epsilon": 1.0}, {"bounds": {"income": (0.0, 1e5)}}],
)
def test_boosted_trees_are_no_default_where_people_said_otherwise_or_nobody_said_ranges(folder, said):
    made = draft(files(folder), Wishes("income", **{"epsilon": 100.0, **DECLARED, **said}))
    assert made.boosted is None
    assert made.terms.model.kind == "linear-regression"


def test_what_is_heard_of_a_column_is_what_noise_leaves(folder):
    """In proportion to rows and epsilon; one noise for two equal owners is heard like two owners' rows of one."""
    terms = draft(files(folder), Wishes("income", epsilon=2.0, holdout=0.0, **DECLARED)).terms
    heard, width = evidence_per_column(terms), resolve(terms).preparation.width
    assert heard == pytest.approx(110 * 2.0 / 2**0.5 / width)
    assert evidence_per_column(terms.changed(everyone={"epsilon": 4.0})) == pytest.approx(2 * heard)
    hosted = draft(files(folder), Wishes("income", epsilon=2.0, holdout=0.0, hosts=("a", "b", "c"), **DECLARED)).terms
    assert evidence_per_column(hosted) == pytest.approx(2**0.5 * heard)
    two = terms.changed(privacy={"person": "patient_id", "records_per_person": 2})
    assert evidence_per_column(two) == pytest.approx(heard / 2)


def test_where_kinds_are_read_from_private_rows_that_is_said(folder):
    made = draft(files(folder), Wishes("outcome", positive="diseased", bounds={"age": (18.0, 100.0)}))
    assert "income, job, smoker. The terms make the kinds of columns public" in made.said[0]
    assert made.terms.privacy.scale_epsilon == pytest.approx(0.2)
    assert made.terms.model.features == ("age", "income", "job", "smoker")
    with pytest.raises(SettingError, match="--delta: expected a number above 0"):
        draft(files(folder), Wishes("outcome", positive="diseased", delta=0.0))


def test_people_and_columns_that_not_everybody_has_are_not_learned_from(folder):
    patients(60, 1, "north").assign(ward=1).to_csv(folder / "north.csv", index=False)
    made = draft(files(folder), Wishes("outcome", folder / "public.csv", person="patient_id", records_per_person=2))
    assert "ward" not in (made.terms.model.features or ())
    assert any("because some owners lack them: patient_id, ward" in said for said in made.said)
    assert made.terms.privacy.person == "patient_id"
    assert made.terms.model.holdout_by == "person"
    assert made.terms.owners[0].records == 60


def test_rows_that_count_are_counted_by_people(folder):
    twice = pd.concat([patients(30, 1, "north")] * 2)
    twice.to_csv(folder / "north.csv", index=False)
    made = draft(files(folder)[:1], Wishes("outcome", folder / "public.csv", person="patient_id"))
    assert made.terms.owners[0].records == 30


def test_a_copy_of_a_private_table_is_no_public_sample(folder):
    (folder / "copy.csv").write_bytes((folder / "north.csv").read_bytes())
    with pytest.raises(DataError, match="is the private table"):
        draft(files(folder), Wishes("outcome", folder / "copy.csv"))


def test_owners_are_named_after_their_files():
    paths = [Path("a/Bank of X (2).csv"), Path("b/Bank of X 2.csv"), Path("Bank-of-X-2.csv"), Path("....csv")]
    assert owner_names(paths) == ["Bank-of-X-2", "Bank-of-X-2-2", "Bank-of-X-2-3", "owner"]


DAYS = pd.Timestamp("2019-01-01") + pd.to_timedelta(7 * np.arange(60), unit="D")


@pytest.fixture
def dated(tmp_path):
    """Private tables and a public one with dates, in two formats, and numbers and names that tell rows apart."""
    for name, first in (("public", 0), ("mill", 500), ("bakery", 900)):
        place = np.arange(60)
        pd.DataFrame(
            {
                "card_no": 10_000_000 + 137_911 * (place + first) % 89_999_999,
                "pid": [f"P{each + first}" for each in place],
                "tag": [f"#{(each + first) * 7919 % 10007}" for each in place],
                "opened": DAYS.strftime("%d/%m/%Y"),
                "logged": DAYS.strftime("%Y-%m-%d %H:%M:%S"),
                "amount": 1000 + place**2 * 13,
                "kind": np.where(place % 3, "car", "house"),
                "rate": place / 10,
            }
        ).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def drafted(dated, **wishes):
    return draft([dated / "mill.csv", dated / "bakery.csv"], Wishes("rate", dated / "public.csv", **wishes))


def test_dates_become_days_in_the_one_format_that_reads_them(dated):
    made = drafted(dated)
    model = made.terms.model
    assert model.dates == {"opened": "%d/%m/%Y", "logged": "%Y-%m-%d %H:%M:%S"}
    prepared, public = fit_preparation(made.terms)
    assert prepared.ranges["opened"] == (17897.0, 17897.0 + 7 * 59)
    assert len(prepared.labels) < 12  # and no name for each date
    assert public is not None
    assert "opened holds dates (%d/%m/%Y)" in " ".join(made.said)


def rewritten(dated, column, cells):
    frame = pd.read_csv(dated / "public.csv")
    frame.loc[: len(cells) - 1, column] = cells
    frame.to_csv(dated / "public.csv", index=False)


def test_a_day_that_may_be_a_month_is_refused_until_somebody_says_which(dated):
    rewritten(dated, "opened", [f"{1 + each % 12}/{1 + each % 11}/2020" for each in range(60)])
    with pytest.raises(SettingError, match=r"--dates opened=%d/%m/%Y or --dates opened=%m/%d/%Y"):
        drafted(dated)
    assert drafted(dated, dates={"opened": "%m/%d/%Y"}).terms.model.dates["opened"] == "%m/%d/%Y"
    assert "opened" not in drafted(dated, features=("amount", "kind")).terms.model.dates
    with pytest.raises(SettingError, match=r"no row of the public sample has a date in this format"):
        drafted(dated, dates={"opened": "%Y%m%d"})


def test_mixed_formats_are_refused_by_how_many_rows_have_them(dated):
    rewritten(dated, "opened", ["2019-02-03", "2019-02-04"])
    with pytest.raises(SettingError, match=r"2 of 60 rows in the public sample .* --dates opened=%d/%m/%Y") as refused:
        drafted(dated)
    assert "2019" not in str(refused.value)
    said = " ".join(drafted(dated, dates={"opened": "%d/%m/%Y"}).said)
    assert "2 of 60 public rows hold none, and count as missing cells" in said


def test_without_a_public_sample_formats_are_read_and_ranges_are_said_as_dates(dated):
    ends = {"opened": (17000.0, 19000.0), "amount": (0.0, 1e5), "rate": (0.0, 10.0)}
    wishes = Wishes("rate", features=("opened", "amount"), bounds=ends, dates={"opened": ""})
    made = draft([dated / "mill.csv", dated / "bakery.csv"], wishes)
    assert made.terms.model.dates == {"opened": "%d/%m/%Y"}
    assert made.terms.privacy.scale_epsilon is None
    assert "how dates are written: opened." in " ".join(made.said)
    frame = pd.read_csv(dated / "mill.csv")
    frame.loc[:2, "opened"] = "deceased"
    frame.to_csv(dated / "mill.csv", index=False)
    again = draft([dated / "mill.csv", dated / "bakery.csv"], wishes)
    assert again.said == made.said  # how many private rows hold no date is not said in a file that others get
    given = replace(wishes, dates={"opened": "%d/%m/%Y"})
    (dated / "mill.csv").write_text((dated / "mill.csv").read_text().replace("/2019", "/unknown"))
    assert "Parley read only the column names" in draft([dated / "mill.csv"], given).said[0]  # no cell was looked at


def test_numbers_and_names_of_nearly_one_row_each_are_left_out_and_said(dated):
    made = drafted(dated)
    assert made.terms.model.features == ("opened", "logged", "amount", "kind")
    (said,) = (each for each in made.said if each.startswith("These columns are not used unless"))
    assert "pid (tells people apart)" in said
    assert "card_no, tag (nearly every row has a value of its own" in said
    assert "card_no" in drafted(dated, features=("card_no", "amount")).terms.model.features


def test_owners_whose_tables_are_elsewhere_need_no_file(dated):
    """The public sample says what columns there are; people say who has how many rows."""
    owners = {"bank-a": (25000, None), "bank-b": (9000, 0.5)}
    made = draft([], Wishes("rate", dated / "public.csv", owners=owners))
    assert [(part.name, part.records, part.epsilon, part.data) for part in made.terms.owners] == [
        ("bank-a", 25000, 1.0, None),
        ("bank-b", 9000, 0.5, None),
    ]
    assert made.said[0] == "Parley read no private file."
    assert made.terms.model.features == drafted(dated).terms.model.features
    both = draft([dated / "mill.csv"], Wishes("rate", dated / "public.csv", owners=owners))
    assert [part.name for part in both.terms.owners] == ["mill", "bank-a", "bank-b"]
    assert both.said[0].startswith("Parley read only the column names")
    with pytest.raises(SettingError, match="--owner NAME=RECORDS"):
        draft([], Wishes("rate", owners=owners))


def test_names_that_differ_by_capitals_or_spaces_are_one_if_somebody_says_so(dated):
    """Told apart unless somebody says otherwise; then public and private rows are read alike."""
    rewritten(dated, "kind", ["Car", " car", "House", "NEW  car"])
    apart = drafted(dated)
    assert apart.terms.model.merged == ()
    assert "--merge" in next(each for each in apart.said if each.startswith("kind has names"))
    made = drafted(dated, merged=("kind",))
    assert made.terms.model.merged == ("kind",)
    prepared, _ = fit_preparation(made.terms)
    assert prepared.categories["kind"] == ("car", "house", "new car")
    rows = pd.read_csv(dated / "mill.csv").assign(kind="CAR ")
    places = [place for place, label in enumerate(prepared.labels) if label == "kind = car"]
    assert prepared.coded(rows, "mill")[places].min() == 1.0
    assert "merged" not in apart.terms.canonical
    declared, _ = fit_preparation(drafted(dated, merged=("kind",), categories={"kind": ("Car", "House")}).terms)
    assert declared.coded(rows, "mill")[declared.labels.index("kind = Car")].min() == 1.0
    with pytest.raises(TermsError, match="categorical features"):
        made.terms.changed(model={"merged": ("amount", "rate")})
