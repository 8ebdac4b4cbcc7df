"""From files to terms: public knowledge and people's answers decide, and the planner does the rest.

Formal guarantee: of the private files the terms hold the names of columns and how many rows count and, if neither a
public sample nor a declaration says so, whether a column holds numbers, names or dates of which format; then
`Draft.said` says so. If people have several rows, how many rows count depends on the cells of the column that
identifies people: `records` is read off it, and `Draft.said` says so, too. Replacing one person by somebody who has no
other row does not change it (`data.headers`). No range, no name of a category and no class of a private row is looked
at.
"""

import math
import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from parley.data.blocks import one_thread
from parley.data.fitting import read_public
from parley.data.headers import read_header
from parley.decisions.from_files.column_choice import (
    TABLES_COMPARED,
    TREES_MIN_EVIDENCE,
    Tried,
    Wanted,
    choose_columns,
    evidence_per_column,
    informative_rows,
    judged_trees,
    open_ways,
)
from parley.decisions.from_files.known_columns import KnownColumns, Wishes
from parley.decisions.knowledge.baselines import best_cost
from parley.decisions.knowledge.cross_fit import with_best_growth, with_best_margin
from parley.decisions.knowledge.pilot import open_pilot
from parley.decisions.planning.planner import Proposal, plan
from parley.durable import store_address
from parley.errors import DataError, SettingError, TermsError
from parley.learning.algorithms.algorithm import Progress
from parley.numerals import number
from parley.privacy.accounting import mechanism_norm
from parley.protocol.setup import resolve
from parley.terms import Terms
from parley.terms.catalogue import MODELS, NOISES, PREDICTION, THREE_HOST_SWITCHES
from parley.terms.sections import SHARED_NOISE
from parley.validate import LARGEST, printable

NO_SAMPLE_NOTE = (
    "Declared ranges do not tell which kind of model fits. On {} tables boosted trees were mostly better from {:g} "
    "records × ε per column on, and straight lines below (benchmarks/RESULTS.md, kinds.py). Here it is {}, and "
    "these terms take {}. Only a release of both kinds, each debited, settles it: every owner then compares parley "
    "score of both."
)
TREES_NOTE = (
    "boosted trees. They can be simulated and released, but not forecast or negotiated: --columns lines takes straight "
    "lines, which can"
)
LINES_NOTE = "straight lines. --kind {} takes boosted trees, which cannot be forecast"
DEFAULT_BOX_RADIUS = 20.0  # of a box, where it takes one
BOOSTED_KINDS = {"linear-regression": "boosted-regression", "logistic-regression": "boosted-classification"}
SCALE_SHARE = 0.2  # of epsilon, for scales where nothing public shows how columns are spread


@dataclass(frozen=True, eq=False)
class Draft:
    """Terms, and how they came about."""

    terms: Terms
    said: tuple[str, ...]
    proposal: Proposal | None = None  # None: they wait for scales
    columns: Wanted = "best"  # what they shall become
    tried: tuple[Tried, ...] = ()  # ways for columns, with what each would give
    boosted: Terms | None = None  # the same by boosted trees, which begin at nothing public; None: they cannot


def owner_names(files: Sequence[Path]) -> list[str]:
    """Return a distinct name per file, after the file: letters, digits, '-', '_' and '.'."""
    names: list[str] = []
    for file in files:
        letters = unicodedata.normalize("NFKD", file.stem)  # an ü is a u with two dots, which are left out
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", re.sub(r"[\u0300-\u036f]", "", letters)).strip("-")[:90] or "owner"
        name, count = plain, 1
        while name in names:
            count += 1
            name = f"{plain}-{count}"
        names.append(name)
    return names


def _parties(files: Sequence[Path], rows: Sequence[int], wishes: Wishes) -> list[dict[str, Any]]:
    parties = [
        {
            "name": name,
            "records": records,
            "epsilon": wishes.epsilon,
            "data": store_address(file) or str(file.resolve()),
        }
        for name, records, file in zip(owner_names(files), rows, files, strict=True)
    ]
    for name, (records, epsilon) in wishes.owners.items():
        parties.append({"name": name, "records": records, "epsilon": wishes.epsilon if epsilon is None else epsilon})
    return parties


def usual_delta(rows: int) -> float:
    """Return a delta well below one over the number of rows, 1e-6 at most.

    >>> usual_delta(500), usual_delta(3_000_000)
    (1e-06, 1e-08)
    """
    return float(f"1e{min(-6, int(np.floor(np.log10(0.1 / rows) + 1e-9)))}")


def draft(files: Sequence[Path], wishes: Wishes) -> Draft:
    """Draft terms for the owners of these files, before anything is planned."""
    if not files and not (wishes.owners and wishes.public):
        raise SettingError(
            "FILES: expected at least one private table, or --public FILE with --owner NAME=RECORDS for every owner"
        )
    if not 0 < wishes.epsilon < np.inf:
        raise SettingError(f"--epsilon {wishes.epsilon:g}: expected a number above 0, such as 1")
    if wishes.delta is not None and not 0 <= wishes.delta < 1:
        raise SettingError(f"--delta {wishes.delta:g}: expected a number of at least 0 and below 1, such as 1e-6")
    if wishes.person is None and wishes.records_per_person != 1:
        raise SettingError("--records-per-person: needs --person, the column that identifies people")
    if wishes.hosts and (len(wishes.hosts) not in (2, 3) or len({*wishes.hosts}) < len(wishes.hosts)):
        raise SettingError(
            f"--hosts {','.join(wishes.hosts)}: expected two or three different names; owners and the learner may be "
            "hosts"
        )
    if wishes.draw is not None and (wishes.draw != "together" or len(wishes.hosts) != 2):
        raise SettingError(f"--draw {wishes.draw}: expected together, and --hosts with two names")
    for key in THREE_HOST_SWITCHES:
        if getattr(wishes, key) and len(wishes.hosts) != NOISES[SHARED_NOISE].hosts:
            raise SettingError(f"--{key.replace('_', '-')}: expected --hosts with three names")
    headers = [read_header(file, wishes.person, wishes.records_per_person) for file in files]
    known = KnownColumns.from_headers(files, headers, wishes)
    kind, positive = known.task()
    features = known.features()
    predicted = MODELS[kind].task == PREDICTION  # else trees, which refuse columns that nobody described
    missing = [column for column in features if predicted and not known.describes(column)]
    if kind == "linear-regression" and not known.describes(wishes.target):
        missing.append(wishes.target)
    parties = _parties(files, [header.rows for header in headers], wishes)
    delta = usual_delta(max(part["records"] for part in parties)) if wishes.delta is None else wishes.delta
    if missing and not delta > 0:
        raise SettingError(
            "--delta: expected a number above 0 (such as 1e-6), because releasing the scales of "
            f"{', '.join(missing[:3])} needs a delta. Alternatively, give --public, --bounds or --categories"
        )

    def terms_of_kind(kind: str) -> Terms:
        predicts = MODELS[kind].task == PREDICTION
        content: dict[str, Any] = {
            "title": wishes.title or _title(wishes.target, [part["name"] for part in parties]),
            "model": known.model(kind, positive, features, bool(missing)),
            "learning": {"algorithm": "averaged-subgradient", "horizon": 100} if predicts else {},
            "privacy": _privacy(wishes, delta, bool(missing), predicts),
            "owners": parties,
            **({"hosts": [{"name": name} for name in wishes.hosts]} if wishes.hosts else {}),
        }
        return Terms.from_dict(content, "init")

    terms, boosted = terms_of_kind(kind), None
    open_kind = wishes.public is not None or not (missing or wishes.kind)
    if kind in BOOSTED_KINDS and wishes.columns == "best" and open_kind and not wishes.score_epsilon:
        with suppress(DataError, SettingError, TermsError):  # a column without a range, or of too many names
            boosted = terms_of_kind(BOOSTED_KINDS[kind])
    return Draft(terms, tuple(known.sentences(terms, features, missing)), columns=wishes.columns, boosted=boosted)


@one_thread
def planned(made: Draft, seed: int = 0, progress: Progress = lambda done, total: None) -> Draft:
    """Add the planner's choice to the draft, unless scales must be asked first."""
    terms = made.terms
    if terms.task != PREDICTION:
        return replace(made, said=(*made.said, "Boosted trees are not planned, and need no plan: docs/trees.md."))
    if terms.privacy.scale_epsilon is not None:
        later = "What columns become is not chosen before scales are known: write model.columns into the terms then."
        return made if made.columns in ("best", "lines") else replace(made, said=(*made.said, later))
    public = None if terms.model.public is None else read_public(terms.model)
    beside = _without_a_sample(made) if public is None else ()
    if made.boosted is not None and _takes_trees(made):
        return replace(made, terms=made.boosted, said=(*made.said, *beside))
    ways = list(open_ways(terms, None if public is None else informative_rows(terms, public), made.columns))
    best, tried = choose_columns(terms, ways, partial(_planned_columns, seed=seed), _least, progress)
    if best.proposal is None:
        raise SettingError(f"--columns: the planner found no plan for any choice of columns: {best.why}")
    if made.boosted is not None and public is not None and len(ways) > 1:
        tried = (*tried, judged_trees(made.boosted, public))
    said = made.said
    if terms.model.public is None:
        said = (
            *said,
            "Planned on invented rows within the declared ranges: a public sample would tell what the model will be "
            "worth.",
            *beside,
        )
    return replace(made, terms=best.proposal.terms, said=said, proposal=best.proposal, tried=tried)


def _without_a_sample(made: Draft) -> tuple[str, ...]:
    """Say what declared ranges leave open, what is usual then, and what would settle it."""
    if (other := BOOSTED_KINDS.get(made.terms.model.kind)) is None:
        return ()
    evidence = evidence_per_column(made.terms)
    takes = TREES_NOTE if _takes_trees(made) else LINES_NOTE.format(other)
    return (NO_SAMPLE_NOTE.format(TABLES_COMPARED, TREES_MIN_EVIDENCE, number(evidence, 3), takes),)


def _takes_trees(made: Draft) -> bool:
    """Return whether boosted trees are the default for these terms: possible, no public sample, enough
    records."""
    return (
        made.boosted is not None
        and made.terms.model.public is None
        and evidence_per_column(made.terms) >= TREES_MIN_EVIDENCE
    )


def draft_terms(files: Sequence[str | Path], target: str, seed: int = 0, **wishes: Any) -> Draft:
    """Return planned terms for the owners of these files, as `parley init` writes them.

    Only the names of columns and the number of rows of private files are read; the module's docstring lists the
    exceptions, which `said` states.

    Parameters
    ----------
    files
        The owners' private tables, one each; an owner is called after its file.
    target
        The column to predict.
    seed
        The seed of the planner's runs on public rows.
    wishes
        Options of `parley init` by name: `public`, `epsilon`, `delta`, `kind`, `features`, `bounds`, `categories`,
        `dates`, `owners`, `positive`, `person`, `records_per_person`, `hosts`, `draw`, `hosts_may_cheat`,
        `check_answers`, `holdout`, `score_epsilon`, `columns`, `exposure`, `event`, `periods`, `title`.

    Returns
    -------
    Draft
        The `terms`, sentences about them (`said`), and the planner's candidates (`proposal`).

    Examples
    --------
    >>> import tempfile
    >>> import parley
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("north", "south"):
    ...         parley.data.synthetic_lending(200).to_csv(f"{folder}/{name}.csv", index=False)
    ...     bounds = {"fico": (600, 850), "dti": (0, 45), "int_rate": (5, 31)}
    ...     files = [f"{folder}/north.csv", f"{folder}/south.csv"]
    ...     draft_terms(files, "int_rate", features=("fico", "dti"), bounds=bounds, delta=0.0).terms.model.kind
    'linear-regression'
    """
    unknown = sorted({*wishes} - {each.name for each in fields(Wishes)})
    if unknown:
        raise SettingError(f"{unknown[0]}: expected an option of parley init, such as epsilon or public")
    public = wishes.pop("public", None)
    said = Wishes(target, public=None if public is None else Path(public), **wishes)
    return planned(draft([Path(file) for file in files], said), seed)


def _planned_columns(terms: Terms, progress: Progress, seed: int) -> Proposal:
    """Return the best plan for terms whose columns are settled, from a fitting clip."""
    if terms.model.trees is not None:  # gradients at public leaf values say where to clip
        grow = with_best_margin if terms.model.trees.refitted == 0 else with_best_growth
        return plan(grow(terms), None, None, seed, progress)
    try:
        clip = _fitting_clip(terms)
    except (DataError, SettingError):  # its rows have no optimum without a box: classes that separate
        terms = terms.changed(model={"radius": DEFAULT_BOX_RADIUS})
        clip = _fitting_clip(terms)
    return plan(terms.changed(privacy={"clip": clip}), None, None, seed, progress)


def _least(terms: Terms) -> float:
    """Return the compared cost without noise, halfway between the public model and the best; -infinity if
    unknown."""
    try:
        setup = resolve(terms)
        if setup.public is not None and setup.parameters > len(setup.public):  # told before a pilot is opened: dear
            raise TermsError(
                "model.columns: there are more columns than public rows, so Parley cannot estimate the worth of the "
                "columns"
            )
        known = open_pilot(terms.changed(privacy={"clip": LARGEST}))
        fit, best = known.own_fit, best_cost(known)
    except (DataError, SettingError):  # classes that separate: a plan puts a box around its parameters
        return -math.inf
    alone = best if fit is None else fit.cost
    return (alone + best) / 2 * known.setup.preparation.target_scale**2


def _fitting_clip(terms: Terms) -> float:
    """Return a clip that one pilot record in a hundred reaches at its best model."""
    known = open_pilot(terms.changed(privacy={"clip": LARGEST}))
    sizes = known.objective.record_norms(
        known.design, known.landscape().optimum, mechanism_norm(terms.privacy.mechanism)
    )
    usual = float(np.quantile(sizes, 0.99))
    return float(f"{usual:.3g}") if usual > 0 else 1.0


def _title(target: str, owners: Sequence[str]) -> str:
    """Return the default title of terms.

    >>> _title("wfood", ["villages", "cities"])
    'wfood, learned by villages and cities'
    """
    who = f"{', '.join(owners[:-1])} and {owners[-1]}" if 1 < len(owners) <= 3 else f"{len(owners)} owners"
    return f"{printable(target, 60)}, learned by {owners[0] if len(owners) == 1 else who}"


def _privacy(wishes: Wishes, delta: float, scales: bool, clips: bool) -> dict[str, Any]:
    content: dict[str, Any] = {"mechanism": "gaussian" if delta > 0 else "laplace"} | ({"clip": 1.0} if clips else {})
    content |= {"delta": delta} if delta > 0 else {}
    content |= (
        {} if wishes.person is None else {"person": wishes.person, "records_per_person": wishes.records_per_person}
    )
    content |= {} if wishes.score_epsilon is None else {"score_epsilon": wishes.score_epsilon}
    content |= {"scale_epsilon": float(f"{SCALE_SHARE * wishes.epsilon:.6g}")} if scales else {}
    content |= {} if wishes.draw is None else {"draw": wishes.draw}
    content |= {key: True for key in THREE_HOST_SWITCHES if getattr(wishes, key)}
    return content | ({"noise": "shared"} if wishes.hosts else {})
