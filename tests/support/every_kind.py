"""Terms that ask each kind of question that is registered, by the trunk or by a wing; a new kind needs a line here."""

from importlib.util import find_spec

from federated import FAMILY, family_terms
from samples import BOUNDS, GAUSSIAN, STATISTICS, make_terms

import parley
from parley.protocol.queries import QUESTION_KINDS
from parley.protocol.task import task_named
from parley.tasks.statistics.column_statistics.terms import column_statistics_agreement
from parley.terms.catalogue import PREDICTION, TASKS

OWNERS = [{"name": "a", "records": 40, "epsilon": 1.0}]
SGD = {"learning__algorithm": "private-sgd", "learning__horizon": None, "learning__batches": 2, "learning__epochs": 2}
WIDE = [f"x{j}" for j in range(17)]

# rows that are drawn in secret, of so many columns that products of matrices round them in several ways
SECRET = make_terms(
    40,
    model__features=WIDE,
    model__bounds={column: [-4, 4] for column in WIDE},
    model__radius=1e24,
    privacy__clip=1.0,
    learning__sampling="poisson",
    **SGD,
)
# names that are whole numbers, and gaps that are filled
NAMED = make_terms(
    40,
    model__features=["x0", "c"],
    model__categories={"c": ["1", "2", "3"]},
    model__bounds={"x0": [-1, 1]},
    model__missing="fill",
)

EVERY_KIND = {
    "gradient": make_terms(40),
    "minibatch": make_terms(40, **SGD, learning__sampling="poisson"),
    "update": family_terms("federated-averaging", 40),
    "corrected": family_terms("scaffold", 40),
    "statistics": make_terms(40, **STATISTICS),
    "score": make_terms(40, privacy__score_epsilon=0.5, model__holdout=0.5, model__bounds=BOUNDS),
    "minimum": make_terms(
        40,
        learning__algorithm="objective-perturbation",
        learning__horizon=None,
        learning__step=None,
        model__kind="logistic-regression",
        model__features=["x0"],
        model__radius=None,
    ),
    "scales": column_statistics_agreement(make_terms(400, privacy__scale_epsilon=0.5, **GAUSSIAN)),
    "trajectories": parley.Terms.from_dict(
        {
            "model": {
                "kind": "delayed-dynamics",
                "trajectory": "which",
                "states": ["x"],
                "inputs": ["z"],
                "period": 1.0,
                "max_delay": 1,
                "samples": 6,
                "bounds": {"x": [-5, 5], "z": [-5, 5]},
            },
            "learning": {"algorithm": "identification"},
            "privacy": {"mechanism": "gaussian", "delta": 1e-6},
            "owners": OWNERS,
        }
    ),
    "item-factors": parley.Terms.from_dict(
        {
            "model": {
                "kind": "matrix-factorization",
                "user": "user",
                "item": "item",
                "target": "rating",
                "items": 5,
                "factors": 1,
                "bounds": {"rating": [0, 5]},
            },
            "learning": {"horizon": 2},
            "privacy": {"mechanism": "gaussian", "delta": 1e-6, "clip": 1.0},
            "owners": OWNERS,
        }
    ),
    "leaf-sums": parley.Terms.from_dict(
        {
            "model": {
                "kind": "boosted-classification",
                "target": "y",
                "features": ["x", "c"],
                "bounds": {"x": [-1, 1]},
                "categories": {"c": ["1", "2"]},
                "bins": 4,
            },
            "learning": {"horizon": 3},
            "privacy": {"mechanism": "laplace"},
            "owners": OWNERS,
        }
    ),
    "state-moments": parley.Terms.from_dict(
        {
            "model": {
                "kind": "echo-state",
                "features": ["x"],
                "target": "z",
                "bounds": {"x": [-5, 5], "z": [-5, 5]},
                "reservoir": {"recording": "which", "samples": 4, "washout": 0, "nodes": 2, "input_scale": 2.0},
            },
            "privacy": {"mechanism": "gaussian", "delta": 1e-6, "clip": 1.0},
            "owners": OWNERS,
        }
    ),
    "counts": parley.Terms.from_dict(
        {
            "model": {"kind": "histogram", "target": "y", "categories": {"y": ["1", "2"]}},
            "privacy": {"mechanism": "geometric"},
            "owners": OWNERS,
        }
    ),
}
NETWORK = parley.Terms.from_dict(
    {
        "model": {
            "kind": "network-classification",
            "target": "y",
            "features": ["x0", "x1"],
            "categories": {"y": ["1", "2"]},
            "bounds": {"x0": [-1, 1], "x1": [-1, 1]},
            "layers": [3],
        },
        "learning": {"batches": 2, "epochs": 2, "step": 0.5},
        "privacy": {"mechanism": "gaussian", "delta": 1e-6, "clip": 1.0},
        "owners": OWNERS,
    }
)
MIXED = NETWORK.changed(
    model={"kind": "network-regression", "categories": {}, "bounds": {name: [-1, 1] for name in ("x0", "x1", "y")}},
    learning={"algorithm": "correlated-sgd", "sampling": "partition", "batches": 20, "epochs": 3},
)
LOCAL_STEPS = NETWORK.changed(
    learning={"algorithm": "federated-averaging", "epochs": None, "horizon": 2, "local_steps": 3, "optimiser": "plain"}
)
CORRECTED_STEPS = LOCAL_STEPS.changed(learning={"algorithm": "fedlin"})
if find_spec("torch") is not None:
    EVERY_KIND |= {"network-gradient": NETWORK, "mixed-network-gradient": MIXED}
    EVERY_KIND |= {"network-update": LOCAL_STEPS, "corrected-network-update": CORRECTED_STEPS}


def with_held_out_people(terms: parley.Terms, rows: int = 2) -> parley.Terms:
    """The same with people who have so many rows, about half of whom are held out."""
    return terms.changed(
        model={"holdout": 0.5, "holdout_by": "person"}, privacy={"person": "who", "records_per_person": rows}
    )


SCORED = {"privacy__score_epsilon": 0.5, "model__holdout": 0.5}
# the same kinds in other ways: batches that all know, people with several rows, one noise for all
OTHERWISE = {
    "batches": make_terms(40, **SGD),
    "people": make_terms(40, privacy__person="who", privacy__records_per_person=2),
    "held-out people": with_held_out_people(make_terms(40, model__bounds=BOUNDS, **SCORED)),
    "names": NAMED,
    "one noise for all": parley.Terms.from_dict(
        {
            "model": {"kind": "linear-svm", "target": "y", "features": ["x0"], "radius": 5.0},
            "learning": {"horizon": 2, "step": 0.2},
            "privacy": {"clip": 4.0, "delta": 1e-6, "noise": "shared"},
            "hosts": [{"name": name} for name in ("a", "b", "h")],
            "owners": [{"name": name, "records": 100, "epsilon": 1.0} for name in "ab"],
        }
    ),
}

# every kind of model, algorithm, mechanism and unit that can be released: what audits must cover
CLASSES = {"model__categories": {"y": ["p", "q", "r"]}}
TWO = {"learning__horizon": 2}
AUDITED = {
    **EVERY_KIND,
    **OTHERWISE,
    "geometric": make_terms(40, privacy__mechanism="geometric", **TWO),
    "owner": make_terms(40, 30, privacy__clip=0.5, privacy__unit="owner", **TWO),
    "gradient-descent": make_terms(40, learning__algorithm="gradient-descent", **TWO),
    "gossip": make_terms(40, 30, 20, learning__algorithm="gossip", learning__topology="ring", **TWO),
    "fedinfer": make_terms(40, learning__algorithm="fedinfer", learning__horizon=1, learning__step=None, **GAUSSIAN),
    **{name: family_terms(name, 40, 30, **TWO) for name in FAMILY},
    **{kind: make_terms(40, model__kind=kind, **TWO) for kind in ("linear-svm", "logistic-regression")},
    **{
        kind: make_terms(40, model__kind=kind, **CLASSES, **TWO)
        for kind in ("softmax-regression", "one-vs-all", "least-squares-classes")
    },
    "poisson-regression": make_terms(
        40, model__kind="poisson-regression", model__bounds={**BOUNDS, "y": [0, 10]}, **TWO
    ),
    "survival": make_terms(40, model__kind="survival", model__event="e", model__periods=[1.0, 2.0], **TWO),
    "boosted-regression": EVERY_KIND["leaf-sums"].changed(
        model={"kind": "boosted-regression", "bounds": {"x": [-1, 1], "y": [-1, 1]}}
    ),
    "randomised response": parley.Terms.from_dict(
        {
            "model": {"kind": "count", "target": "y", "categories": {"y": ["1"]}},
            "privacy": {"mechanism": "randomised-response"},
            "owners": OWNERS,
        }
    ),
}
if find_spec("torch") is not None:
    AUDITED["mixed-network-gradient"] = MIXED.changed(learning={"batches": 2, "epochs": 1})

# people are held out, in every kind of question that allows it
HELD_OUT_PEOPLE = {
    **{kind: with_held_out_people(EVERY_KIND[kind]) for kind in ("gradient", "statistics", "score", "leaf-sums")},
    **{kind: with_held_out_people(EVERY_KIND[kind]) for kind in ("update", "corrected")},
    "batches": with_held_out_people(OTHERWISE["batches"]),
    "secret draws": with_held_out_people(EVERY_KIND["minibatch"], 1),
    "survival": with_held_out_people(AUDITED["survival"]),
    "boosted-regression": with_held_out_people(AUDITED["boosted-regression"]),
    "one noise for all": with_held_out_people(OTHERWISE["one noise for all"]),
    "score of two classes": with_held_out_people(make_terms(40, model__kind="logistic-regression", **SCORED)),
    "score of classes": with_held_out_people(make_terms(40, model__kind="softmax-regression", **CLASSES, **SCORED)),
    "score of counts": with_held_out_people(
        make_terms(40, model__kind="poisson-regression", model__bounds={**BOUNDS, "y": [0, 10]}, **SCORED)
    ),
}
if find_spec("torch") is not None:
    HELD_OUT_PEOPLE["network-gradient"] = with_held_out_people(NETWORK, 1)
    HELD_OUT_PEOPLE["network-update"] = with_held_out_people(LOCAL_STEPS, 1)
    HELD_OUT_PEOPLE["mixed-network-gradient"] = with_held_out_people(AUDITED["mixed-network-gradient"], 1)


def registered_kinds() -> set[str]:
    """Every kind that the trunk or a wing's task answers, but those of tasks with an audit of their own; networks where
    torch is installed."""
    here = [name for name in TASKS if name != "networks" or find_spec("torch") is not None]
    wings = [task_named(name) for name in here if name != PREDICTION]
    own = {kind for task in wings if "audit" in task.commands for kind in task.questions}
    return {*QUESTION_KINDS, *(kind for task in wings for kind in task.questions)} - own
