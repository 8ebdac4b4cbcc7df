from pathlib import Path

import pandas as pd
import pytest
from samples import patients

from parley.decisions.from_files.known_columns import Wishes
from parley.decisions.from_files.terms_from_files import draft, owner_names
from parley.errors import DataError, SettingError


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
    assert "nothing else" in before.said[0]
    assert before.terms.model.centres == {"age": 59.0, "income": 5e4}
    assert before.terms.privacy.scale_epsilon is None


def test_where_kinds_are_read_from_private_rows_that_is_said(folder):
    made = draft(files(folder), Wishes("outcome", positive="diseased", bounds={"age": (18.0, 100.0)}))
    assert "income, job, smoker. That much becomes public" in made.said[0]
    assert made.terms.privacy.scale_epsilon == pytest.approx(0.2)
    assert made.terms.model.features == ("age", "income", "job", "smoker")
    with pytest.raises(SettingError, match="--delta: expected a number above 0"):
        draft(files(folder), Wishes("outcome", positive="diseased", delta=0.0))


def test_people_and_columns_that_not_everybody_has_are_not_learned_from(folder):
    patients(60, 1, "north").assign(ward=1).to_csv(folder / "north.csv", index=False)
    made = draft(files(folder), Wishes("outcome", folder / "public.csv", person="patient_id", records_per_person=2))
    assert "ward" not in (made.terms.model.features or ())
    assert any("not everybody has them: patient_id, ward" in said for said in made.said)
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
