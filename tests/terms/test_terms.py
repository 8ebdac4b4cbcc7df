import tomllib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import make_terms

from parley.errors import TermsError
from parley.terms import Terms, load_terms, training_records

EXAMPLE = """
title = "Interest rates of three banks"
[model]
kind = "linear-svm"
target = "int_rate"
features = ["loan_amnt", "annual_inc", "dti"]
regularisation = 0.0
class_weight = { "1" = 10.0 }
radius = 10.0
bounds = { loan_amnt = [0, 40000] }
public = "public_loans.csv"
components = 3
holdout = 0.2
intercept = false
[learning]
algorithm = "averaged-subgradient"
horizon = 100
step = "auto"
batch = "full"
quorum = 1
straggler = "wait"
[privacy]
mechanism = "laplace"
clip = 40.0
delta = 0.0
shared_records = 1
records_per_person = 1
[[owners]]
name = "bank-a"
records = 250000
epsilon = 1.0
value = 1000.0
privacy_cost = { kind = "linear", weight = 5.0 }
data = "bank_a.parquet"
"""


def test_every_key_of_the_format_is_read():
    terms = Terms.from_toml(EXAMPLE)
    assert terms.model.class_weight == {"1": 10.0}
    assert terms.owner("bank-a").privacy_cost.weight == 5.0
    assert terms.model.bounds["loan_amnt"] == (0, 40000)


def test_paths_are_relative_to_the_file_and_not_hashed(tmp_path):
    (tmp_path / "terms.toml").write_text(EXAMPLE)
    terms = load_terms(tmp_path / "terms.toml")
    assert terms.owners[0].data == str(tmp_path / "bank_a.parquet")
    assert terms.model.public == str(tmp_path / "public_loans.csv")
    assert terms.hash == Terms.from_toml(EXAMPLE).hash
    assert "bank_a.parquet" not in terms.canonical
    assert "public_loans" not in terms.canonical


def test_keys_that_came_later_leave_older_hashes_as_they_are():
    """Ledgers and acceptances name agreements by these: a new key must not enter the hash of terms that do not use
    it."""
    assert Terms.from_toml(EXAMPLE).hash == "598529a18db0396da42dc8701b79b09affd885b672336be473ae398434c737c9"
    assert make_terms(100, 50).hash == "7e16c0c155efd77904cc2c8a91929e733061af8036ea78cc0cab40da2c93e5df"
    once = make_terms(100, learning__algorithm="sufficient-statistics", learning__horizon=None, learning__step=None)
    assert once.hash == "4fba23656da26582e34f8e1f92ce90c93c12c63c4d5fb68bbe27e703fa1aa313"


def test_hash_does_not_depend_on_the_order_of_keys_or_written_defaults():
    content = tomllib.loads(EXAMPLE)
    shuffled = {key: content[key] for key in reversed(content)}
    shuffled["model"] = {key: content["model"][key] for key in reversed(content["model"])}
    del shuffled["learning"]["batch"], shuffled["privacy"]["delta"]
    assert Terms.from_dict(shuffled).hash == Terms.from_toml(EXAMPLE).hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("horizon = 100", "horizon = 101"),
        ("clip = 40.0", "clip = 40.5"),
        ("epsilon = 1.0", "epsilon = 1.1"),
        ("records = 250000", "records = 250001"),
        ("loan_amnt = [0, 40000]", "loan_amnt = [0, 40001]"),
        ('"1" = 10.0', '"1" = 11.0'),
    ],
)
def test_hash_depends_on_everything_agreed(old, new):
    assert Terms.from_toml(EXAMPLE.replace(old, new)).hash != Terms.from_toml(EXAMPLE).hash


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("clip = 40.0", "clp = 40.0", "privacy.clp: unknown key; did you mean 'clip'?"),
        ("clip = 40.0", "clip = -1.0", "privacy.clip = -1.0: expected a number > 0"),
        ("clip = 40.0", "clip = nan", "privacy.clip = nan: expected a"),
        ("clip = 40.0", "clip = inf", "privacy.clip = inf: expected a finite number"),
        ("clip = 40.0", 'clip = "forty"', "privacy.clip = 'forty': expected a number"),
        ("horizon = 100", "horizon = 0", "learning.horizon = 0: expected a number >= 1"),
        ("horizon = 100", "horizon = 10.5", "learning.horizon = 10.5: expected a whole number"),
        ('step = "auto"', 'step = "fast"', "learning.step = 'fast': expected a number from 1e-50 to 1e+50, or 'auto'"),
        (
            "loan_amnt = [0, 40000]",
            "loan_amnt = [1]",
            "model.bounds.loan_amnt: expected [low, high], two finite numbers",
        ),
        ('name = "bank-a"', 'name = "../a"', "owners.1.name = '../a': expected letters, digits"),
        (
            'mechanism = "laplace"',
            'mechanism = "none"',
            "privacy.mechanism = 'none': expected 'laplace', 'gaussian' or 'geometric'",
        ),
        ('mechanism = "laplace"', 'mechanism = "gausian"', "or 'geometric'; did you mean 'gaussian'?"),
        (
            'mechanism = "laplace"',
            'mechanism = "stable"',
            "'gaussian' or 'geometric'; stable noise is for simulations only, because no sampler of stable noise is "
            "safe for a release (docs/stable_noise.md)",
        ),
        ('mechanism = "laplace"', 'mechanism = "gaussian"', "privacy.delta: expected a number above 0"),
        ('kind = "linear-svm"', 'kind = "tree"', "model.kind = 'tree': expected 'linear-regression'"),
        ("epsilon = 1.0", "epsilon = 0", "owners.bank-a.epsilon = 0: expected a number > 0"),
        ("epsilon = 1.0", "epsilom = 1.0", "owners.bank-a.epsilom: unknown key; did you mean 'epsilon'?"),
        ("epsilon = 1.0", "", "owners.bank-a.epsilon: missing; this key is required"),
        ("epsilon = 1.0", "epsilon = true", "owners.bank-a.epsilon = True: expected a number"),
        (
            "loan_amnt = [0, 40000]",
            "loan_amnt = [5, 5]",
            "model.bounds.loan_amnt: expected [low, high] with low < high",
        ),
        (
            'features = ["loan_amnt", "annual_inc", "dti"]',
            'features = ["int_rate"]',
            "model.features: expected columns other than",
        ),
        ('public = "public_loans.csv"', "", "model.components: needs a `public` sample"),
        (
            "shared_records = 1",
            "shared_records = 2",
            "privacy.shared_records: expected at most the number of owners, 1",
        ),
        (
            'quorum = 1\nstraggler = "wait"',
            'straggler = "skip"',
            "learning.quorum: expected a number with straggler = 'skip'",
        ),
        ("quorum = 1", "quorum = 2", "learning.quorum: expected at most the number of owners, 1"),
        ("records_per_person = 1", "records_per_person = 3", "privacy.records_per_person: needs `person`"),
        ("holdout = 0.2", "holdout = 1.0", "model.holdout = 1.0: expected a number < 1"),
        ("delta = 0.0", "delta = 0.1", "privacy.delta: expected 0, because Laplace noise needs no delta"),
        ('title = "Interest rates of three banks"', "title = ", "not valid TOML"),
    ],
)
def test_mistakes_are_named_with_key_value_and_expectation(old, new, message):
    assert old in EXAMPLE
    with pytest.raises(TermsError) as caught:
        Terms.from_toml(EXAMPLE.replace(old, new), source="terms.toml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("terms.toml: ")


def test_a_regression_needs_something_that_limits_a_record():
    with pytest.raises(TermsError, match=r"privacy\.clip: expected a number"):
        make_terms(10, privacy__clip=None, model__radius=None)


def test_two_owners_cannot_share_a_name():
    with pytest.raises(TermsError, match="different names"):
        Terms.from_toml(EXAMPLE + EXAMPLE[EXAMPLE.index("[[owners]]") :])


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(TermsError, match="cannot be read"):
        load_terms(tmp_path / "none.toml")


def test_terms_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        make_terms(10).privacy.clip = 5.0


@given(st.integers(1, 10**9), st.floats(0, 1, exclude_max=True))
def test_holdout_never_takes_more_than_its_share(records, holdout):
    assert records * (1 - holdout) <= training_records(records, holdout) + 1e-6
    assert training_records(records, holdout) <= records


@given(
    st.dictionaries(
        st.sampled_from(["title", "model", "learning", "privacy", "owners", "hosts"]) | st.text(max_size=8),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
            max_leaves=8,
        ),
        max_size=6,
    )
)
def test_no_input_brings_anything_but_a_terms_error(content):
    with pytest.raises(TermsError):
        Terms.from_dict(content)


def test_a_name_cannot_end_in_a_dot():
    """To a TLS library "bank-a." and "bank-a" are one host."""
    with pytest.raises(TermsError, match="name"):
        make_terms(10).from_dict(
            make_terms(10).model_dump() | {"owners": [{"name": "bank-a.", "records": 10, "epsilon": 1.0}]}
        )


@pytest.mark.parametrize(
    ("terms", "known"),
    [
        (lambda: make_terms(100), "0100b8fc94e5c3688b23288c26b17bee6590df8fe64a17b2600946c5e05b27b4"),
        (
            lambda: make_terms(100, 50, model__holdout=0.2, privacy__mechanism="gaussian", privacy__delta=1e-6),
            "c978b05595d7d9fccf5ea41bb4319601ec48ca9d79189f43b3f04cf3ef0c6d85",
        ),
        (lambda: Terms.from_toml(EXAMPLE), "598529a18db0396da42dc8701b79b09affd885b672336be473ae398434c737c9"),
    ],
)
def test_terms_that_were_agreed_on_before_a_key_was_known_keep_their_hash(terms, known):
    assert terms().hash == known
    assert "score_epsilon" not in terms().canonical


def scored(*sizes, **overrides):
    return make_terms(*sizes, **{"model__holdout": 0.2, "model__bounds": {"y": [-3, 3]}, **overrides})


def test_a_score_takes_its_part_of_every_epsilon_exactly():
    plain, terms = scored(100, 40, epsilon=0.3), scored(100, 40, epsilon=0.3, privacy__score_epsilon=0.1)
    assert plain.hash != terms.hash
    assert (plain.training_epsilon("a"), plain.score_epsilon, plain.rounds) == (Fraction(3, 10), 0, 10)
    assert (terms.training_epsilon("a"), terms.score_epsilon, terms.rounds) == (Fraction(2, 10), Fraction(1, 10), 11)
    assert (terms.train_rows("b"), terms.held_out_rows("b")) == (32, 8)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"privacy__score_epsilon": 0.0}, "privacy.score_epsilon = 0.0: expected a number > 0"),
        ({"privacy__score_epsilon": float("nan")}, "privacy.score_epsilon"),
        ({"privacy__score_epsilon": "0.1"}, "privacy.score_epsilon = '0.1': expected a number"),
        ({"privacy__score_epsilon": 1.0}, "privacy.score_epsilon: expected less than the epsilon of 'a'"),
        (
            {"privacy__score_epsilon": 0.1, "model__holdout": 0.0},
            "privacy.score_epsilon: needs model.holdout",
        ),
        (
            {"privacy__score_epsilon": 0.1, "model__holdout": 0.02},
            "a share that gives 'b' at least one held-out record",
        ),
        (
            {"privacy__score_epsilon": 0.1, "model__bounds": {"x0": [0, 1]}},
            "needs bounds for the target",
        ),
    ],
)
def test_a_score_that_cannot_be_is_refused(overrides, words):
    with pytest.raises(TermsError, match=words.replace(".", r"\.")):
        scored(100, 40, **overrides)


def test_a_mistake_in_an_owners_part_is_told_by_its_name():
    content = make_terms(100, 50, 70).model_dump(mode="json")
    content["owners"][2]["records"] = 0
    with pytest.raises(TermsError, match=r"owners\.c\.records = 0"):
        Terms.from_dict(content)
    content["owners"][0]["name"] = "c"  # two of that name: the place tells them apart
    with pytest.raises(TermsError, match=r"owners\.3\.records = 0"):
        Terms.from_dict(content)


def test_an_owner_that_is_wrong_is_one_sentence_and_not_a_list_that_is_too_short():
    """Who is refused is missing from the list of owners, and that is no mistake of its own; an empty list is."""
    content = {"model": {"kind": "linear-regression", "target": "y"}, "privacy": {"clip": 1.0}}
    wrong = {"name": "a", "records": 10, "epsilon": 1.0, "privacy_cost": {"kind": "lineer", "weight": 1.0}}
    with pytest.raises(TermsError) as found:
        Terms.from_dict({**content, "owners": [wrong]})
    assert str(found.value) == (
        "terms: owners.a.privacy_cost.kind = 'lineer': expected 'linear', 'exponential', 'posterior', 'min-entropy' "
        "or 'mutual-information'; did you mean 'linear'?"
    )
    with pytest.raises(TermsError, match=r"^terms: owners: expected at least 1$"):
        Terms.from_dict({**content, "owners": []})


def test_mechanisms_for_ratings_are_offered_to_ratings():
    content = {"model": {"kind": "matrix-factorization", "target": "y"}, "privacy": {"mechanism": "no"}, "owners": []}
    with pytest.raises(TermsError, match="'bounded-ratings', 'unbounded-ratings' or 'hide'"):
        Terms.from_dict(content)
