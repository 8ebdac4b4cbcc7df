"""Which targets count as 1: by name, by a list, as truth values; and what is said about it."""

import numpy as np
import pandas as pd
import pytest
from samples import make_terms

import parley
from parley.data import fit_preparation
from parley.errors import DataError
from parley.learning.outcome import load_model
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.warnings import find_warnings

BOTH = ["sick", "well", "well", "sick"]
SIGNS = [1.0, -1.0, -1.0, 1.0]
WAYS = {
    "positive": ({"positive": "sick"}, ["sick", "well", "unknown", "sick"], "'sick' counts as 1, every other name as "
                                                                            "0"),
    "a list": ({"positive": "sick", "categories": {"y": ["sick", "well"]}}, BOTH, "'sick' counts as 1, 'well' as 0"),
    "a list the other way": ({"categories": {"y": ["well", "sick"]}}, BOTH, "'sick' counts as 1, 'well' as 0"),
    "truth": ({}, [True, False, False, True], "1 (or True) counts as 1, 0 (or -1, False) as 0"),
    "truth in text": ({}, ["True", "False", "false", "TRUE"], "1 (or True) counts as 1"),
    "truth by name": ({"positive": "False"}, [False, True, "true", "False"], "'False' counts as 1, every other name "
                                                                             "as 0"),
    "a number": ({"positive": "0"}, [0, 3, 1.0, 0.0], "'0' counts as 1, every other name as 0"),
    "as ever": ({}, [1, 0, -1, 1], "1 (or True) counts as 1"),
}  # fmt: skip


def preparation(tmp_path=None, public=None, **model):
    terms = make_terms(4, model__kind="logistic-regression", **{f"model__{key}": value for key, value in model.items()})
    if public is not None:
        frame(public).to_csv(tmp_path / "public.csv", index=False)
        terms = terms.changed(model={"public": str(tmp_path / "public.csv")})
    return fit_preparation(terms)[0], terms


def frame(y):
    y = pd.Series(y, dtype=object)
    return pd.DataFrame({f"x{j}": np.linspace(-1, 1, len(y)) * (j + 1) for j in range(3)}).assign(y=y)


@pytest.mark.parametrize("way", WAYS)
def test_a_cell_counts_as_the_terms_say_and_people_are_told(way):
    model, cells, words = WAYS[way]
    made, _ = preparation(**model)
    np.testing.assert_array_equal(made.target(frame(cells), "a"), SIGNS)
    assert words in made.target_words


def test_names_of_the_public_sample_serve_and_the_second_counts_as_one(tmp_path):
    made, _ = preparation(tmp_path, ["no", "yes", "no", "yes"])
    assert made.target_words == "Target 'y': 'yes' counts as 1, 'no' as 0."
    with pytest.raises(DataError, match=r"row 2: the value is not one of the listed names \(no, yes\)"):
        made.target(frame(["no", "maybe", "yes"]), "a")


def test_three_classes_get_a_clear_word_and_no_value(tmp_path):
    with pytest.raises(
        DataError,
        match=r"public sample: column 'y' has 3 different values, but this model needs two classes: name the class",
    ):
        preparation(tmp_path, ["a", "b", "c", "a"])
    made, _ = preparation()
    with pytest.raises(
        DataError,
        match=r"row 3: the value is not a class; expected 1 or 0 \(or -1\) \(the column has 3 different values",
    ) as caught:
        made.target(frame([0, 1, 7731, 0]), "a")
    assert "7731" not in str(caught.value)
    with pytest.raises(
        DataError, match=r"expected a number; for a column of names, name the class that counts as 1 in model\.positive"
    ) as caught:
        made.target(frame(["diseased", "well", "well"]), "a")
    assert "diseased" not in str(caught.value)


def test_a_missing_target_is_refused_whatever_the_policy():
    for model in ({"positive": "sick"}, {}):
        made, _ = preparation(missing="fill", bounds={f"x{j}": [-3, 3] for j in range(3)}, **model)
        with pytest.raises(DataError, match="column 'y', row 2: the value is missing"):
            made.target(frame([1, None, 0, 1]), "a")


def test_a_name_that_nobody_has_is_warned_of_and_a_near_one_refused(tmp_path):
    with pytest.raises(DataError, match="did you mean 'diseased'"):
        preparation(tmp_path, ["diseased", "well", "well", "diseased"], positive="Diseased")
    _, terms = preparation(positive="Sick")
    owner = parley.Owner("a", frame(["sick", "well", "sick", "well"]))
    found = [warning for warning in find_warnings(owner, owner.prepare(terms)) if warning.about == "model.positive"]
    assert len(found) == 1
    assert "The target of every record in your table counts as 0" in found[0].sentence
    assert not [
        d for d in find_warnings(owner, owner.prepare(preparation(positive="sick")[1])) if d.about == "model.positive"
    ]


def test_an_owner_reads_what_is_done_to_its_columns_before_it_accepts(tmp_path):
    keys = {
        "coding": "one-hot",
        "categories": {"x1": ["a", "b"]},
        "missing": {"x0": "fill"},
        "transforms": {"x2": "sqrt"},
    }
    _, terms = preparation(positive="sick", bounds={"x0": [0, 1], "x2": [0, 9]}, **keys)
    owner = parley.Owner("a", frame(BOTH).assign(x1="a"), ledger=parley.Ledger(tmp_path / "a.ledger", 5))
    said = acceptance_summary(owner, owner.prepare(terms))
    for sentence in (
        "Target 'y': 'sick' counts as 1, every other name as 0.",
        "A column of 0 and 1 for each name of x1.",
        "Missing cells are filled with public numbers and marked in x0.",
        "Transformed before use: sqrt of x2.",
    ):
        assert sentence in said
    assert "x0 0 to 1; x1 0 to 1 (2 names and others); x2 0 to 9." in " ".join(said)  # in their own units


def test_a_saved_model_carries_columns_gaps_transforms_and_the_mapping(tmp_path):
    rng = np.random.default_rng(0)
    table = frame(rng.choice(["sick", "well"], 200)).assign(
        x1=rng.choice(["a", "b", "c", None], 200), x2=rng.lognormal(0, 1, 200)
    )
    table.loc[::9, "x0"] = None
    table.to_csv(tmp_path / "public.csv", index=False)
    terms = make_terms(
        200,
        model__kind="logistic-regression",
        model__positive="sick",
        model__coding="one-hot",
        model__missing="fill",
        model__transforms={"x2": "log"},
        model__public=str(tmp_path / "public.csv"),
    )
    model = parley.train(terms, [parley.Owner("a", table)], seed=0).model
    model.save(tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    rows = table.assign(x1=rng.choice(["a", "c", "new", None], 200)).drop(columns="y")
    np.testing.assert_array_equal(again.decision_function(rows), model.decision_function(rows))
    assert again.preparation_.target_words == "Target 'y': 'sick' counts as 1, every other name as 0."
    assert len(again.coef_) == 8  # x0, x0 missing, three names and missing, x2, x2 missing
    # by place, gaps as NaN
    coded = rows.assign(x1=rows["x1"].map({"a": 0, "b": 1, "c": 2, "new": 3})).to_numpy(dtype=float)
    np.testing.assert_allclose(again.decision_function(coded), model.decision_function(rows))
