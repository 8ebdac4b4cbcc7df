"""What accepting terms means, in words: who may ask, what leaves, what it promises people, what it costs."""

import numpy as np

from parley.data.public_margin import MarginForest, MarginLines
from parley.errors import ParleyError, SettingError, UnknownTerms
from parley.numerals import counted, number, percent
from parley.owner.custody import words
from parley.owner.ledger import Ledger
from parley.owner.ledger.account import Reservation
from parley.owner.owner import Agreement, Owner
from parley.owner.record_leakage import covering_epsilon, leakage_words, record_leakage
from parley.owner.warnings import sentences
from parley.privacy.accounting.meaning import WIDER, approximate_posterior, posterior_bounds
from parley.privacy.events import Adjacency
from parley.protocol.task import Task
from parley.terms import Terms
from parley.terms.catalogue import PREDICTION
from parley.terms.model import Model
from parley.terms.sections import OWNER
from parley.terms.topology import edges
from parley.validate import printable, upper

# of a decision by a look at own rows (`parley forecast --inside`), which no noise protects
DECIDING = (
    "Whether you join is seen by others: a decision that you base on your own rows tells something about them, and no "
    "budget covers that."
)


def acceptance_summary(
    owner: Owner, agreement: Agreement, key: str | None = None, relay: bool = False, peer: str | None = None
) -> list[str]:
    """What a person reads before accepting.

    `key` is the learner's fingerprint, `relay` whether relays on this machine may ask, `peer` the owner's own name if
    its own peer asks in the learner's place.
    """
    terms = agreement.setup.terms
    reservation = owner.reservation(terms)
    model, learner = terms.model, printable(peer or terms.learning.learner)
    covered = upper(covering_epsilon(terms, owner.name))
    if terms.privacy.delta > 0:
        low, high, failure = approximate_posterior(covered, terms.privacy.delta, 0.5)
        unless = f", except with probability {number(failure, side='above')} ({WIDER})"
    else:
        (low, high), unless = posterior_bounds(covered, 0.5), ""
    callers = f"certificate of {learner!r}" + (
        f" with the key {key[:16]}…" if key else ", any key that the authority signed"
    )
    task = agreement.setup.task
    columns = ", ".join(printable(column) for column in (*agreement.setup.preparation.features, *task.columns(model)))
    known = accepted(owner, terms)
    return [
        f"{printable(terms.title) or 'Untitled terms'}  (terms {terms.hash})",
        f"{'Learner' if peer is None else 'No centre, but its own peer'}: {learner}. Who may ask: the {callers}"
        f"{'; relays on this machine' if relay else ''}.",
        *([] if peer is None else [_neighbours(terms, peer)]),
        *_purpose(agreement, columns),
        *_counted(agreement),
        *map(printable, owner.table.remarks),
        *task.notes(agreement),
        *(_shared(agreement) if terms.noise.summed else [_noisy(agreement)]),
        *_steps(agreement),
        *_arrivals(agreement),
        *_liars(terms),
        *sentences(agreement),
        f"What it promises {_to_whom(agreement)} ({Adjacency.of_unit(terms.privacy.unit)}): ε = "
        f"{number(reservation.epsilon, side='above')}, δ = "
        f"{number(terms.privacy.delta, side='above')}{_whose(owner, terms)}{_copied(terms, covered)}. "
        f"Who believed something about {'your table' if terms.privacy.unit == OWNER else f'a {task.unit}'} with 50.0% "
        f"ends between {percent(low, 'below')} and {percent(high, 'above')}{unless}." + task.several(agreement),
        leakage_words(record_leakage(agreement.setup, owner.name), terms, task.unit),
        *([DECIDING] if terms.task == PREDICTION and not known else []),
        _costs(require_ledger(owner), reservation, known),
    ]


def _to_whom(agreement: Agreement) -> str:
    """Whom the guarantee is about."""
    if agreement.setup.terms.privacy.unit == OWNER:
        return (
            "you as a whole, by these terms alone, and so everybody who is in your table and in no other owner's (in κ "
            "tables: κ times this ε): with any other table of as many records the learner would see much the same; "
            "that you take part, and with how many records, is public"
        )
    return f"every {agreement.setup.task.unit} in the table"


def _neighbours(terms: Terms, owner: str) -> str:
    """Whom the owner's own peer tells what."""
    everybody = [part.name for part in terms.owners]
    joined = edges(terms.learning.topology or "complete", everybody)
    near = [name for name in everybody if (owner, name) in joined or (name, owner) in joined]
    return (
        f"Its own peer mixes the answers with what it hears and tells the peers of {', '.join(map(printable, near))} "
        "the mixture; in the end all owners know everybody's point."
    )


def _purpose(agreement: Agreement, columns: str) -> list[str]:
    """Sentences that say what the answers are for."""
    own, kind = agreement.setup.task.purpose(agreement), agreement.setup.terms.model.kind
    if own is not None:
        return own
    return [f"Model: {kind} from the columns {columns}{_classes(agreement)}.", *_columns(agreement)]


def _counted(agreement: Agreement) -> list[str]:
    """What the public number of records rests on, and what a row without a target does."""
    terms, task = agreement.setup.terms, agreement.setup.task
    said = []
    if terms.privacy.person is not None and task.unit == Task.unit:
        most = "row" if terms.privacy.records_per_person == 1 else f"{terms.privacy.records_per_person:,} rows"
        said.append(
            f"Of everybody the first {most} count, by the cells of {printable(terms.privacy.person)!r}; how many "
            "that makes is public. Replacing a person by somebody with as many rows, and no others in the table, "
            "leaves it as it is: that is what is promised about. How many rows each person has is not protected."
        )
    if terms.task == PREDICTION:
        said.append("A row without a target counts, and contributes nothing.")
    return said


def _noisy(agreement: Agreement) -> str:
    """What leaves where the owner adds its own noise."""
    terms, training = agreement.setup.terms, agreement.part.training
    scored = ""
    if terms.privacy.score_epsilon is not None:
        scored = (
            f", and one score of the finished model: {agreement.part.stages[1].question.words()}, with laplace noise "
            f"for ε = {number(terms.score_epsilon, side='above')}, which training goes without"
        )
    return (
        f"What leaves: {counted(len(training.rounds), 'answer')}, each {training.question.words()}, with "
        f"{terms.privacy.mechanism} noise{scored}. Nothing else."
    )


def _shared(agreement: Agreement) -> list[str]:
    """What leaves where hosts draw one noise for all, and who could read it."""
    terms, training = agreement.setup.terms, agreement.part.training
    scored = ""
    if terms.privacy.score_epsilon is not None:
        scored = f", and one score of the finished model: {agreement.part.stages[1].question.words()}"
    two, mechanism = terms.noise.draws == 2, terms.privacy.mechanism
    how = (
        f"two {mechanism} noises, one of each host: a host knows its own, and to it, even with the learner, the other "
        "hides you as promised"
        if two
        else f"one {mechanism} noise, which the hosts draw and none knows"
    )
    shares = "two shares, one" if two else "three shares, one pair"
    return [
        f"What leaves: {counted(len(training.rounds), 'answer')}, each {training.question.words()}{scored}. Your exact "
        f"sum, without noise, leaves in {shares} to each host. Nothing else.",
        f"Hosts: {words(terms)}. One of them alone reads nothing; "
        f"{'the two together' if two else 'any two of these parties together'} can read your exact sum.",
        f"What the learner gets: the sum of all owners with {how}"
        + (f" (the score's is laplace noise for ε = {number(terms.score_epsilon, side='above')})." if scored else "."),
    ]


def _copied(terms: Terms, covered: float) -> str:
    """What covers a record that several owners hold, whose answers add up."""
    if terms.privacy.shared_records == 1:
        return ""
    said = number(covered, side="above")
    return f"; with the answers of all {terms.privacy.shared_records} owners that may hold a record, ε = {said}"


def _whose(owner: Owner, terms: Terms) -> str:
    """Whose epsilon it is, where it is not the owner's own."""
    if not terms.noise.common:
        return ""
    own = number(terms.owner(owner.name).epsilon, side="above")
    holds = (
        "the two hosts do not act together and neither's journal is put back to an earlier time"
        if terms.noise.draws == 2
        else "no two hosts act together"
    )
    return f": the smallest ε of all owners, for one noise has one (yours was {own}), as long as {holds}"


def _steps(agreement: Agreement) -> list[str]:
    """Where answers are about batches, or updates as the literature counts them: what one of them costs, beside what
    all do."""
    learning, part = agreement.setup.terms.learning, agreement.part
    if learning.batches is None and learning.local_steps is None:
        return []
    privacy = agreement.setup.terms.privacy
    step, total = number(part.step_epsilon, side="above"), number(part.epsilon, side="above")
    at = f" at δ = {number(privacy.delta, side='above')}" if privacy.delta > 0 else ""
    if learning.batches is None:
        each = f"Per update and in total: one answer alone costs ε = {step}{at}"
        return [f"{each}; all of them, ε = {total}{at}, are what is promised and debited."]
    if part.training.series.joint:
        return [
            f"In total: the noise of an answer is calibrated for all answers together. The first spends the whole "
            f"ε = {total}{at}, and nothing of it comes back where no more are asked for."
        ]
    answers, entered, rows = len(part.training.rounds), part.training.series.count, privacy.records_per_person
    every = counted(answers, "answer")
    if learning.poisson:
        often = f"about {answers / (learning.batches or 1):,.0f} of {every}, and nobody else knows which"
    else:
        often = f"at most {entered:,} of {every}, one an epoch"
    people = f", a person with {rows:,} of them in up to {min(rows * entered, answers):,}" if rows > 1 else ""
    scored = "" if privacy.score_epsilon is None else " and the score"
    return [
        f"Per step and in total: one answer alone costs ε = {step}{at}; a record is in {often}{people}. The total "
        f"over all epochs{scored}, ε = {total}{at}, is what is promised and debited."
    ]


def _arrivals(agreement: Agreement) -> list[str]:
    """Where nobody waits for the others: how often this owner is asked, and what is seen beside its answers."""
    if agreement.setup.schedule.waits:
        return []
    answers = len(agreement.part.training.rounds)
    return [
        f"Answers are used as they come: this owner is asked again as soon as it has answered, at most {answers:,} "
        "times, and its noise is for exactly so many. An answer that comes too late to be used costs as much. When "
        "its answers come the learner sees, and no part of this promise is about that."
    ]


def _liars(terms: Terms) -> list[str]:
    """What the learner does about owners that lie, where the terms say how many may."""
    section = terms.aggregation
    if section is None:
        return []
    return [
        f"Of all owners {section.byzantine:,} may lie: the learner makes one answer of all by the rule "
        f"{section.rule!r}, and its result names owners whose answers the agreed bound"
        f"{'' if section.spread is None else ', the stated spread'} and their noise do not explain. What this owner "
        "promises does not depend on it."
    ]


def _costs(books: Ledger, reservation: Reservation, known: bool) -> str:
    """What it costs of the lifetime budget, by the rule by which that is held."""
    lifetime, reserved, held = books.lifetime, books.reserved, books.rho
    budget, before = f"ε = {number(lifetime[0])}", reserved[0]
    if held is not None:
        budget += f", δ = {number(lifetime[1])}, held as zCDP: of ρ = {number(held[0], side='below')}"
        before = held[1]
    cost = reservation.epsilon if held is None else reservation.rho
    if cost is None and not known:
        return (
            f"What it costs: of the lifetime budget {budget}, {number(before, side='above')} is reserved already. "
            "What these terms cost in zCDP is not known, so this ledger cannot take them."
        )
    now = "nothing more" if known else number(cost or 0, side="above")
    deltas = f" Of its δ = {number(lifetime[1])}, {number(reserved[1], side='above')} is reserved already."
    return (
        f"What it costs: of the lifetime budget {budget}, {number(before, side='above')} is reserved already and "
        f"{now} would be now"
        f"{' (these terms are accepted)' if known else ''}. It never comes back, whether asked for or not."
        + (deltas if lifetime[1] > 0 and held is None else "")
    )


def _columns(agreement: Agreement) -> list[str]:
    """Which targets count as 1, and what is done to cells before they count."""
    preparation, said = agreement.setup.preparation, []
    if preparation.target_words is not None:
        said.append(preparation.target_words)
    filled = [printable(e.column, 40) for e in preparation.encodings if e.fills]
    changed = [f"{e.transform} of {printable(e.column, 40)}" for e in preparation.encodings if e.transform is not None]
    coded: dict[str, list[str]] = {}
    for encoding in preparation.encodings:
        if encoding.words is not None:
            coded.setdefault(encoding.words, []).append(printable(encoding.column, 40))
    sentences = (
        *coded.items(),
        ("Missing cells are filled with public numbers and marked in", filled),
        ("Transformed first:", changed),
    )
    said += [f"{what} {', '.join(columns)}." for what, columns in sentences if columns]
    forest, model = preparation.forest, agreement.setup.terms.model
    if forest is not None:
        origin = _tree_origin(model) if model.columns == "trees" else "the bins of one column each"
        origin += "" if model.crossed is None else f", and of {len(model.crossed)} pairs"
        lies = "is 1 in one leaf" if model.columns != "hinges" else "has 1 to share between two neighbouring leaves"
        if isinstance(forest, MarginLines):
            said.append(
                "Then the columns of a record are centred and scaled, and cut where public rows end. What "
                f"{counted(forest.margin.trees, 'tree')} say of it is one column more for each outcome ({origin}). "
                f"It measures at most {float(np.sqrt(np.square(forest.sizes).sum())):.3g} in L2."
            )
            return [*said, "Training begins at what the trees say, and a penalty pulls there."]
        said.append(
            f"Then a record {lies} of each of {counted(forest.trees, 'tree')} ({origin}; {forest.leaves:,} leaves in "
            "all), and 0 in all others: it measures that much, whatever its cells hold."
        )
        if isinstance(forest, MarginForest):
            said.append(
                f"What {forest.margin.trees:,} more trees say of it is added up, a public margin: one column for each "
                f"outcome, of at most {float(forest.sizes[forest.trees :].max()):.2g}, whose weight stays as it is."
            )
        if preparation.origin is not None:
            said.append("Training begins at their public leaf values, and a penalty pulls there.")
    return said


def _tree_origin(model: Model) -> str:
    """Who grew the trees."""
    if model.preparation is None:
        return "grown on the public sample"
    return "from the pinned file, which whoever wrote the terms made; whether this machine grows them is said below"


def _classes(agreement: Agreement) -> str:
    """The classes of a model that has several, by name."""
    if agreement.setup.terms.model.predicts != "classes":
        return ""
    names = [printable(name, 40) for name in agreement.setup.preparation.classes]
    return f"; its classes are {', '.join(names[:12])}" + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def accepted(owner: Owner, terms: Terms) -> bool:
    """Whether the books hold these terms: accepting again changes only who may ask."""
    try:
        owner.ledger.account(terms.hash)
    except UnknownTerms:
        return False
    return True


def require_ledger(owner: Owner) -> Ledger:
    """The durable ledger of an owner that serves."""
    if not isinstance(owner.ledger, Ledger):
        raise SettingError(f"{owner.name}: expected an owner with a durable ledger")
    return owner.ledger


NAMED = 20  # owners


def others_in(terms: Terms, owner: str) -> str:
    """Who else the terms name, with how many records, at which epsilon."""
    others = [part for part in terms.owners if part.name != owner]
    if not others:
        return "Who else is in: nobody."
    said = [
        f"{part.name} ({part.records:,} records, ε = {number(part.epsilon, side='above')})" for part in others[:NAMED]
    ]
    more = f" and {len(others) - NAMED:,} more" if len(others) > NAMED else ""
    return f"Who else is in, by the terms: {', '.join(said)}{more}. Whether they accept is not told here."


def left_after(books: Ledger, reservation: Reservation, known: bool) -> str:
    """What of the lifetime budget would be left for further terms; or that these do not fit. `known` terms are accepted
    already."""
    if not known:
        try:
            books.require_room(reservation)
        except ParleyError as refusal:
            return f"What is left after: these terms do not fit. {refusal}."
    lifetime, reserved, held = books.lifetime, books.reserved, books.rho
    if held is not None:
        left = held[0] - held[1] - (0 if known else reservation.rho or 0)
        return f"What is left after: ρ = {number(left, side='below')} of {number(held[0], side='below')}."
    cost = (0, 0) if known else (reservation.epsilon, reservation.delta)
    left, deltas = lifetime[0] - reserved[0] - cost[0], lifetime[1] - reserved[1] - cost[1]
    of_delta = f", δ = {number(deltas, side='below')} of {number(lifetime[1])}" if lifetime[1] > 0 else ""
    return (
        f"What is left after: ε = {number(left, side='below')} of {number(lifetime[0])}{of_delta}, for all further "
        "terms."
    )
