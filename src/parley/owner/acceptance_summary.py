"""What accepting terms means, in words: who may ask, what leaves, what it promises people, what it costs."""

from parley.errors import ParleyError, SettingError, UnknownTerms
from parley.numerals import counted, number, percent
from parley.owner.disclosure import covering_epsilon, host_names, leakage_words, record_leakage
from parley.owner.ledger import Ledger
from parley.owner.ledger.account import Reservation
from parley.owner.owner import Agreement, Owner
from parley.owner.warnings import sentences
from parley.privacy.accounting.meaning import WIDER_NOTE, approximate_posterior, posterior_bounds
from parley.privacy.events import Adjacency
from parley.protocol.task import Task
from parley.terms import Terms
from parley.terms.catalogue import PREDICTION
from parley.terms.sections import OWNER_UNIT
from parley.terms.topology import edges
from parley.validate import printable, upper

# said because `parley forecast --inside` looks at the owner's own rows, which no noise protects
DECISION_WARNING = (
    "Others see whether you join. If you decide from your own rows, your decision reveals something about them, and no "
    "budget covers that."
)


def acceptance_summary(
    owner: Owner, agreement: Agreement, key: str | None = None, relay: bool = False, peer: str | None = None
) -> list[str]:
    """Return what a person reads before accepting. `key` is the learner's fingerprint, `relay` whether relays on this
    machine may ask, `peer` the owner's own name if its own peer asks in the learner's place."""
    terms = agreement.setup.terms
    reservation = owner.reservation(terms)
    learner = printable(peer or terms.learning.learner)
    covered = upper(covering_epsilon(terms, owner.name))
    if terms.privacy.delta > 0:
        low, high, failure = approximate_posterior(covered, terms.privacy.delta, 0.5)
        exception = f", except with probability {number(failure, side='above')} ({WIDER_NOTE})"
    else:
        (low, high), exception = posterior_bounds(covered, 0.5), ""
    callers = f"whoever holds a certificate for {learner!r} and " + (
        f"the key {key[:16]}…" if key else "any key that the authority signed"
    )
    task = agreement.setup.task
    known = accepted(owner, terms)
    return [
        f"{printable(terms.title) or 'Untitled terms'}  (terms {terms.hash})",
        f"{'Learner' if peer is None else 'No learner; your own peer asks'}: {learner}. Who may ask: {callers}"
        f"{'; relays on this machine' if relay else ''}.",
        *([] if peer is None else [_neighbours(terms, peer)]),
        *task.purpose(agreement),
        *_counted(agreement),
        *map(printable, owner.table.remarks),
        *task.notes(agreement),
        *(_shared(agreement) if terms.noise.summed else [_noisy(agreement)]),
        *_steps(agreement),
        *_arrivals(agreement),
        *_liars_sentence(terms),
        *sentences(agreement),
        f"What it promises {_protected(agreement)} ({Adjacency.from_unit(terms.privacy.unit)}): ε = "
        f"{number(reservation.epsilon, side='above')}, δ = {number(terms.privacy.delta, side='above')}."
        f"{_limits(agreement)}{_smallest_epsilon(owner, terms)}{_copies(terms, covered)} "
        f"Someone who gave a claim about {'your table' if terms.privacy.unit == OWNER_UNIT else f'a {task.unit}'} "
        f"even odds beforehand can end up between {percent(low, 'below')} and {percent(high, 'above')}{exception}."
        + task.group_promise(agreement),
        leakage_words(record_leakage(agreement.setup, owner.name), terms, task.unit),
        *([DECISION_WARNING] if terms.task == PREDICTION and not known else []),
        _costs(require_ledger(owner), reservation, known),
    ]


def _protected(agreement: Agreement) -> str:
    """Return whom the guarantee is about."""
    whole = agreement.setup.terms.privacy.unit == OWNER_UNIT
    terms, unit = agreement.setup.terms, agreement.setup.task.unit
    once = " who has one row" if unit == Task.unit and terms.privacy.person is None else ""
    return "your table as a whole" if whole else f"every {unit}{once} in the table"


def _limits(agreement: Agreement) -> str:
    """Return what a promise about a whole table means, and where it ends; empty for other units."""
    if agreement.setup.terms.privacy.unit != OWNER_UNIT:
        return ""
    return (
        " This covers these terms alone: with any other table of as many records the learner would see much the same. "
        "It also covers everybody who is in your table and in no other owner's; a person in κ tables has κ times this "
        "ε. That you take part, and with how many records, is public."
    )


def _neighbours(terms: Terms, owner: str) -> str:
    """Return what the owner's own peer sends, and to whom."""
    everybody = [part.name for part in terms.owners]
    joined = edges(terms.learning.topology or "complete", everybody)
    near = [name for name in everybody if (owner, name) in joined or (name, owner) in joined]
    return (
        f"Your peer mixes the answers with what it receives and sends the mixture to the peers of "
        f"{', '.join(map(printable, near))}. In the end every owner knows every owner's point."
    )


def _counted(agreement: Agreement) -> list[str]:
    """Return sentences about which rows count, and what is public about their number."""
    terms, task = agreement.setup.terms, agreement.setup.task
    lines = []
    if terms.privacy.person is not None and task.unit == Task.unit:
        one = terms.privacy.records_per_person == 1
        first = "first row counts" if one else f"first {terms.privacy.records_per_person:,} rows count"
        lines.append(
            f"Of each person only the {first}; column {printable(terms.privacy.person)!r} tells people apart. The "
            "number of rows that count is public. The promise is about replacing a person by somebody with as many "
            "rows and no others in the table, which leaves that number unchanged. How many rows each person has is not "
            "protected."
        )
    return lines


def _answers(agreement: Agreement) -> str:
    training = agreement.part.training
    each = "each " if len(training.rounds) > 1 else ""
    return f"{counted(len(training.rounds), 'answer')}, {each}{training.question.words()}"


def _noisy(agreement: Agreement) -> str:
    """Return what leaves where the owner adds its own noise."""
    terms = agreement.setup.terms
    scored = ""
    if terms.privacy.score_epsilon is not None:
        scored = (
            f", and one score of the finished model: {agreement.part.stages[1].question.words()}, with laplace noise "
            f"for ε = {number(terms.score_epsilon, side='above')} (training has the rest)"
        )
    return f"What leaves: {_answers(agreement)}, with {terms.privacy.mechanism} noise{scored}. Nothing else."


def _shared(agreement: Agreement) -> list[str]:
    """Return what leaves where hosts draw one noise for all, and who could read it."""
    terms = agreement.setup.terms
    scored = ""
    if terms.privacy.score_epsilon is not None:
        scored = f", and one score of the finished model: {agreement.part.stages[1].question.words()}"
    two, mechanism = terms.noise.draws == 2, terms.privacy.mechanism
    noise = (
        f"two {mechanism} noises, one from each host. A host knows its own noise; the other one hides you from it as "
        "promised, even if it works with the learner."
        if two
        else f"one {mechanism} noise, which the hosts draw and none of them knows."
    )
    shares = "two shares, one" if two else "three shares, two of them"
    return [
        f"What leaves: {_answers(agreement)}{scored}. Your exact "
        f"sum, without noise, leaves in {shares} for each host. Nothing else.",
        f"Hosts: {host_names(terms)}. One of them alone can read nothing. "
        f"{'The two together' if two else 'Any two of these parties together'} can read your exact sum.",
        f"What the learner gets: the sum over all owners with {noise}"
        + (f" The score has laplace noise for ε = {number(terms.score_epsilon, side='above')}." if scored else ""),
    ]


def _copies(terms: Terms, covered: float) -> str:
    """Return what covers a record that several owners hold, whose answers add up."""
    if terms.privacy.shared_records == 1:
        return ""
    return (
        f" Together with the answers of all {terms.privacy.shared_records} owners that may hold the same record: "
        f"ε = {number(covered, side='above')}."
    )


def _smallest_epsilon(owner: Owner, terms: Terms) -> str:
    """Return whose epsilon it is where it is not the owner's own, and what it rests on."""
    if not terms.noise.common:
        return ""
    own = number(terms.owner(owner.name).epsilon, side="above")
    holds = (
        "the two hosts do not act together and neither's journal is put back to an earlier time"
        if terms.noise.draws == 2
        else "no two hosts act together"
    )
    return (
        f" This is the smallest ε of all owners, because they share one noise (yours was {own}). It holds as long as "
        f"{holds}."
    )


def _steps(agreement: Agreement) -> list[str]:
    """Return what one answer costs beside what all cost, where answers are about batches or are counted as updates."""
    learning, part = agreement.setup.terms.learning, agreement.part
    if learning.batches is None and learning.local_steps is None:
        return []
    privacy = agreement.setup.terms.privacy
    step, total = number(part.step_epsilon, side="above"), number(part.epsilon, side="above")
    most, releases = part.training.question.most_releases, part.training.series.count
    at = f" at δ = {number(privacy.delta, side='above')}" if privacy.delta > 0 else ""
    if most > 1:
        return [
            f"Per answer and in total: every local step is charged as a release, so an answer of {most:,} steps costs "
            f"ε = {step}{at}. All {releases:,} releases, ε = {total}{at}, are what is promised and debited."
        ]
    if learning.batches is None:
        each = f"Per update and in total: one answer alone costs ε = {step}{at}"
        return [f"{each}. All of them cost ε = {total}{at}, which is what is promised and debited."]
    if part.training.series.joint:
        return [
            f"In total: the noise of an answer is calibrated for all answers together. The first answer spends the "
            f"whole ε = {total}{at}, and none of it is refunded if no more are asked for."
        ]
    answers, entered, rows = len(part.training.rounds), part.training.series.count, privacy.records_per_person
    every = counted(answers, "answer")
    if learning.poisson:
        often = f"about {answers / (learning.batches or 1):,.0f} of {every}, and nobody else knows which"
    else:
        often = f"at most {entered:,} of {every}, one per epoch"
    people = f"; a person with {rows:,} records is in up to {min(rows * entered, answers):,}" if rows > 1 else ""
    scored = "" if privacy.score_epsilon is None else " and the score"
    return [
        f"Per step and in total: one answer alone costs ε = {step}{at}. A record is in {often}{people}. The total over "
        f"all {'rounds' if learning.epochs is None else 'epochs'}{scored}, ε = {total}{at}, is what is promised and "
        "debited."
    ]


def _arrivals(agreement: Agreement) -> list[str]:
    """Return how often this owner is asked, and what else is seen, where nobody waits for the others."""
    if agreement.setup.schedule.waits:
        return []
    answers = len(agreement.part.training.rounds)
    return [
        f"Answers are used as they arrive: you are asked again as soon as you have answered, at most {answers:,} "
        "times. The noise is calibrated for exactly that many. An answer that arrives too late to be used costs as "
        "much as any other. The learner sees when your answers arrive; the promise does not cover that."
    ]


def _liars_sentence(terms: Terms) -> list[str]:
    """Return what the learner does about owners that lie, where the terms say how many may."""
    section = terms.aggregation
    if section is None:
        return []
    return [
        f"Up to {section.byzantine:,} of all owners may lie: the learner combines the answers by the rule "
        f"{section.rule!r}. Its result names owners whose answers the agreed bound"
        f"{'' if section.spread is None else ', the stated spread'} and their noise do not explain. What you promise "
        "does not depend on it."
    ]


def _costs(books: Ledger, reservation: Reservation, known: bool) -> str:
    """Return what the terms cost of the lifetime budget, by the rule by which that is held."""
    lifetime, reserved, held = books.lifetime, books.reserved, books.rho
    budget, unit, before = f"ε = {number(lifetime[0])}", "ε", reserved[0]
    cost = reservation.epsilon if held is None else reservation.rho
    if held is not None:
        budget += f", δ = {number(lifetime[1])}, held as zCDP with ρ = {number(held[0], side='below')}"
        unit, before = "ρ", held[1]
    already = f"{unit} = {number(before, side='above')} is already reserved."
    if cost is None and not known:
        return (
            "What it costs: not known in zCDP, so this ledger cannot accept these terms. Of the lifetime budget "
            f"{budget}, {already}"
        )
    now = (
        "nothing more, because these terms are already accepted."
        if known
        else f"{unit} = {number(cost or 0, side='above')}."
    )
    deltas = f" Of its δ = {number(lifetime[1])}, {number(reserved[1], side='above')} is already reserved."
    return (
        f"What it costs: {now} Of the lifetime budget {budget}, {already} Reserved budget is never refunded, even if "
        "it is not used." + (deltas if lifetime[1] > 0 and held is None else "")
    )


def accepted(owner: Owner, terms: Terms) -> bool:
    """Return whether the ledger holds these terms: accepting them again changes only who may ask."""
    try:
        owner.ledger.account(terms.hash)
    except UnknownTerms:
        return False
    return True


def require_ledger(owner: Owner) -> Ledger:
    """Return the durable ledger of an owner that serves."""
    if not isinstance(owner.ledger, Ledger):
        raise SettingError(f"{owner.name}: expected an owner with a durable ledger")
    return owner.ledger


MAX_LISTED_OWNERS = 20


def others_in(terms: Terms, owner: str) -> str:
    """Return who else the terms name, with how many records, at which epsilon."""
    others = [part for part in terms.owners if part.name != owner]
    if not others:
        return "Other owners in these terms: none."
    listed = [
        f"{part.name} ({part.records:,} records, ε = {number(part.epsilon, side='above')})"
        for part in others[:MAX_LISTED_OWNERS]
    ]
    more = f" and {len(others) - MAX_LISTED_OWNERS:,} more" if len(others) > MAX_LISTED_OWNERS else ""
    return f"Other owners in these terms: {', '.join(listed)}{more}. Whether they accept is not shown here."


def left_after(books: Ledger, reservation: Reservation, known: bool) -> str:
    """Return what would be left of the lifetime budget, or that the terms do not fit; `known` ones are accepted."""
    if not known:
        try:
            books.require_room(reservation)
        except ParleyError as refusal:
            return f"What is left afterwards: these terms do not fit. {refusal}."
    lifetime, reserved, held = books.lifetime, books.reserved, books.rho
    if held is not None:
        left = held[0] - held[1] - (0 if known else reservation.rho or 0)
        return f"What is left afterwards: ρ = {number(left, side='below')} of {number(held[0], side='below')}."
    cost = (0, 0) if known else (reservation.epsilon, reservation.delta)
    left, deltas = lifetime[0] - reserved[0] - cost[0], lifetime[1] - reserved[1] - cost[1]
    of_delta = f", δ = {number(deltas, side='below')} of {number(lifetime[1])}" if lifetime[1] > 0 else ""
    return (
        f"What is left afterwards: ε = {number(left, side='below')} of {number(lifetime[0])}{of_delta}, for all "
        "further terms."
    )
