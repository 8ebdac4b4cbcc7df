"""Terms whose owners hold other columns of the same people."""

import pytest
from bank_and_shop import BANK, SHOP, content, joined_terms
from samples import make_terms

import parley
from parley.errors import TermsError
from parley.terms import load_terms, write_terms

OTHER = [{"name": "bank", "records": 9, "epsilon": 1.0, "columns": ["x", "default"]}]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"join": None}, "join: required with algorithm = 'joined-moments': name the column that identifies people"),
        ({"join__key": None}, "join.key: missing; this key is required"),
        ({"join__epsilon": None}, "join.epsilon: missing"),
        ({"join__delta": 0.0}, "join.delta = 0.0: expected a number > 0"),
        ({"join__digits": 40}, "join.digits = 40: expected a number <= 20"),
        ({"join__case": "fold"}, "join.case = 'fold': expected 'ignore'"),
        ({"join__date": "%Q"}, "join.date"),
        ({"join__keys": "id"}, "join.keys: unknown key; did you mean 'key'?"),
        ({"join__epsilon": 1.0}, "join.epsilon: expected less than the owners' epsilon"),
        ({"join__delta": 1e-6}, "join.delta: expected less than privacy.delta"),
        ({"shop__columns": None}, "owners.shop.columns: required with [join]"),
        ({"shop__columns": []}, "owners.shop.columns: expected at least 1"),
        ({"shop__columns": ["income"]}, "owners.columns: expected every column once; 'income' is listed twice"),
        ({"shop__columns": ["customer_id"]}, "owners.shop.columns: expected columns other than join.key"),
        ({"bank__columns": [*BANK]}, "owners.columns: expected one owner with the target 'default'; none lists it"),
        ({"owners": OTHER}, "owners: expected two owners or more"),
        ({"shop__epsilon": 2.0}, "owners.epsilon: expected the same epsilon for all owners"),
        ({"model__kind": "softmax-regression"}, "model.kind: expected 'linear-regression'"),
        ({"model__features": ["income"]}, "model.features: not allowed with [join]"),
        ({"model__components": 2, "model__public": "p.csv"}, "model.components: not allowed with [join]"),
        ({"model__basis": {"points": 3, "width": 1.0}}, "model.basis: not allowed with [join]"),
        ({"model__columns": "bins", "model__crossed": [["income", "balance"]]}, "model.crossed: not allowed"),
        ({"model__columns": "trees", "model__public": "p.csv"}, "columns = 'trees' needs an algorithm that asks"),
        ({"model__radius": 3.0}, "model.radius: not allowed with [join]"),
        ({"model__class_weight": {"1": 2.0}}, "model.class_weight: not allowed with [join]"),
        ({"model__holdout": 0.2}, "model.holdout_by: expected 'person' with [join]"),
        ({"learning__start": "public"}, "learning.start: needs"),
        ({"learning__batches": 2}, "learning.batches: allowed only with"),
        ({"learning__horizon": 2}, "learning.horizon: expected 1, because this algorithm releases once"),
        ({"learning__step": 0.1}, "learning.step: not allowed, because this algorithm takes no steps"),
        ({"learning__quorum": 1}, "learning.quorum: not allowed"),
        ({"learning__participation": 0.5}, "participation and strides need an algorithm with rounds"),
        ({"learning__straggler": "skip", "learning__quorum": 1}, "quorum: not allowed"),
        ({"privacy__mechanism": "laplace"}, "privacy.mechanism: expected 'gaussian' with joined tables"),
        ({"privacy__noise": "each-owner", "hosts": None}, "hosts: expected privacy.noise = 'shared' and three hosts"),
        ({"hosts": None}, "hosts: expected privacy.noise = 'shared' and three hosts"),
        ({"hosts": [{"name": "a"}, {"name": "b"}]}, "hosts: expected privacy.noise = 'shared' and three hosts"),
        ({"privacy__hosts_may_cheat": True}, "privacy.hosts_may_cheat: not allowed with joined tables"),
        ({"privacy__check_answers": True}, "privacy.check_answers: not allowed with joined tables"),
        ({"privacy__unit": "owner", "privacy__clip": 1.0}, "privacy.unit: expected 'record' with this algorithm"),
        ({"privacy__person": "customer_id"}, "privacy.person: not allowed with [join], because join.key"),
        ({"privacy__person": "x", "privacy__records_per_person": 2}, "privacy.person: not allowed with [join]"),
        ({"privacy__shared_records": 2}, "privacy.shared_records: expected 1 with joined tables"),
        ({"privacy__clip": 2.0}, "privacy.clip: not allowed with joined tables; set the clip of each owner"),
        (
            {"privacy__score_epsilon": 0.1, "model__holdout": 0.5, "model__holdout_by": "person"},
            "privacy.score_epsilon: not allowed with joined tables",
        ),
        ({"privacy__scale_epsilon": 0.1}, "privacy.scale_epsilon: not allowed with joined tables"),
        ({"aggregation": {"rule": "median"}}, "aggregation"),
    ],
)
def test_terms_without_a_meaning_are_refused_in_a_sentence(changes, sentence):
    with pytest.raises(TermsError) as refusal:
        joined_terms(**changes)
    assert sentence in str(refusal.value)


def test_other_terms_have_no_join_and_keep_their_hash():
    plain = make_terms(40)
    assert plain.hash == "d419bb210af0388120053ad69c0409186915aed1e2d9e983230e3d4f541bbdc7"
    assert "join" not in plain.canonical
    assert "columns" not in plain.canonical
    with pytest.raises(TermsError, match=r"owners.columns: allowed only with"):
        parley.Terms.from_dict(_owners_with(plain, columns=("x0",)))
    with pytest.raises(TermsError, match=r"owners.clip: allowed only with"):
        parley.Terms.from_dict(_owners_with(plain, clip=1.0))
    with pytest.raises(TermsError, match=r"join: allowed only with learning.algorithm = 'joined-moments'"):
        parley.Terms.from_dict(plain.model_dump(exclude_none=True) | {"join": content()["join"]})


def _owners_with(terms, **keys):
    made = terms.model_dump(exclude_none=True)
    return made | {"owners": [{**owner, **keys} for owner in made["owners"]]}


def test_the_join_is_part_of_the_hash_and_files_keep_it(tmp_path):
    terms = joined_terms()
    others = [
        terms.changed(join={"epsilon": 0.2}),
        terms.changed(join={"case": "ignore"}),
        terms.changed(join={"digits": 10}),
        terms.changed(owners={"shop": {"columns": (SHOP[0],)}}),
        terms.changed(owners={"shop": {"clip": 1.0}}),
    ]
    assert len({terms.hash, *(other.hash for other in others)}) == 6
    for each in (terms, *others):
        write_terms(each, tmp_path / "terms.toml")
        assert load_terms(tmp_path / "terms.toml").hash == each.hash
