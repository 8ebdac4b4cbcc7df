"""What accepting terms means, in words: who may ask, what leaves, what it promises people, what it costs."""

from parley.errors import ParleyError, SettingError, UnknownTerms
from parley.numerals import counted, number, percent
from parley.owner.disclosure import covering_epsilon, host_names, hosts_condition, leakage_words, record_leakage
from parley.owner.ledger import Ledger
from parley.owner.ledger.account import Reservation
from parley.owner.owner import Agreement, Owner
from parley.owner.warnings import sentences
from parley.privacy.accounting.meaning import WIDER_NOTE, approximate_posterior, posterior_bounds
from parley.privacy.events import Adjacency
from parley.protocol.task import Task
from parley.terms import Terms
from parley.terms.catalogue import PREDICTION, TWO_HOSTS
from parley.terms.sections import OWNER_UNIT
from parley.terms.topology import edges
from parley.validate import printable, upper

# said because `parley forecast --inside` looks at the owner's own rows, which no noise protects
DECISION_WARNING = (
    "Other parties see whether you join. A decision based on your own rows reveals information about your rows that no "
    "budget covers."
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
    callers = f"anyone with a certificate for {learner!r} and " + (
        f"the key {key[:16]}…" if key else "a key that the authority signed"
    )
    asker = f"Learner: {learner}" if peer is None else f"No learner; your own peer, {learner}, sends the questions"
    task = agreement.setup.task
    known = accepted(owner, terms)
    return [
        f"{printable(terms.title) or 'Untitled terms'}  (terms {terms.hash})",
        f"{asker}. Who may send questions: {callers}{', and relays on this machine' if relay else ''}.",
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
        f"The terms promise ε = {number(reservation.epsilon, side='above')}, δ = "
        f"{number(terms.privacy.delta, side='above')} ({Adjacency.from_unit(terms.privacy.unit)}) for "
        f"{_protected(agreement)}."
        f"{_limits(agreement)}{_smallest_epsilon(owner, terms)}{_copies(terms, covered)} "
        f"Someone who gave a claim about {'your table' if terms.privacy.unit == OWNER_UNIT else f'a {task.unit}'} even "
        f"odds beforehand can end up between {percent(low, 'below')} and {percent(high, 'above')}{exception}."
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
        " The promise covers only these terms. With any other table of the same size, the learner would see similar "
        "answers. The promise also covers every person who is in your table and in no other owner's table. For a "
        "person in κ tables, ε is κ times as large. Your participation and your number of records are public."
    )


def _neighbours(terms: Terms, owner: str) -> str:
    """Return what the owner's own peer sends, and to whom."""
    everybody = [part.name for part in terms.owners]
    joined = edges(terms.learning.topology or "complete", everybody)
    near = [name for name in everybody if (owner, name) in joined or (name, owner) in joined]
    return (
        "Your peer mixes your answers with the numbers that it receives and sends the mixture to the peers of "
        f"{', '.join(map(printable, near))}. After training, every owner knows every owner's final parameters."
    )


def _counted(agreement: Agreement) -> list[str]:
    """Return sentences about which rows count, and what is public about their number."""
    terms, task = agreement.setup.terms, agreement.setup.task
    lines = []
    if terms.privacy.person is not None and task.unit == Task.unit:
        most = terms.privacy.records_per_person
        first = "first row of each person counts" if most == 1 else f"first {most:,} rows of each person count"
        lines.append(
            f"Only the {first}. Column {printable(terms.privacy.person)!r} tells people apart. The number of counted "
            "rows is public. The promise covers replacing one person with another person who has the same number of "
            "rows and no other rows in the table. The promise does not protect the number of rows that each person has."
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
            f" You also send one score of the finished model: {agreement.part.stages[1].question.words()}, with "
            f"laplace noise for ε = {number(terms.score_epsilon, side='above')}. Training uses the rest of ε."
        )
    return f"You send {_answers(agreement)}, with {terms.privacy.mechanism} noise.{scored} You send nothing else."


CHECKED_ANSWERS = (
    "The hosts check on the shares that each answer keeps its bounds. They and the learner learn yes or no about each "
    "owner, and leave out an owner whose answer does not."
)


def _shared(agreement: Agreement) -> list[str]:
    """Return what leaves where hosts draw one noise for all, and who could read it."""
    terms = agreement.setup.terms
    scored = ""
    if terms.privacy.score_epsilon is not None:
        words = agreement.part.stages[1].question.words()
        scored = f" You also contribute to one score of the finished model: {words}."
    two, mechanism = terms.noise.hosts == TWO_HOSTS.hosts, terms.privacy.mechanism
    noise = (
        f"{mechanism} noise from each of the two hosts. Each host knows its own noise. Even if one host acts together "
        "with the learner, the other host's noise protects you as promised."
        if terms.noise.draws == TWO_HOSTS.draws
        else f"one {mechanism} noise, which the hosts draw together and no host knows."
    )
    shares, received = ("two", "one") if two else ("three", "two")
    whole = agreement.part.training.question.shares_bits
    exact, joint = ("table", "moments over all owners") if whole else ("exact sum", "sum over all owners")
    given = "your table" if whole else "each exact sum, without noise,"
    return [
        f"You contribute to {_answers(agreement)}.{scored} You split {given} into {shares} shares, and send {received} "
        "of the shares to each host. You send nothing else.",
        f"The hosts are {host_names(terms)}. One host alone learns nothing about your {exact}. "
        f"{'The two hosts' if two else 'Any two hosts'} together can read your {exact}.",
        *([CHECKED_ANSWERS] if terms.privacy.check_answers else []),
        f"The learner receives the {joint} with {noise}"
        + (f" The score has laplace noise for ε = {number(terms.score_epsilon, side='above')}." if scored else ""),
    ]


def _copies(terms: Terms, covered: float) -> str:
    """Return what covers a record that several owners hold, whose answers add up."""
    if terms.privacy.shared_records == 1:
        return ""
    return (
        f" If {terms.privacy.shared_records} owners have the same record, all their answers together have ε = "
        f"{number(covered, side='above')}."
    )


def _smallest_epsilon(owner: Owner, terms: Terms) -> str:
    """Return whose epsilon it is where it is not the owner's own, and what it rests on."""
    if not terms.noise.common:
        return ""
    own = number(terms.owner(owner.name).epsilon, side="above")
    return (
        f" All owners share one noise, so the smallest ε of all owners applies (the terms give you ε = {own}). "
        f"{hosts_condition(terms)}"
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
            f"Every local step is charged as a release, so an answer of {most:,} steps costs ε = {step}{at}. The "
            f"total of all {releases:,} releases, which the terms promise and the ledger debits, is ε = {total}{at}."
        ]
    if learning.batches is None:
        each = f"One answer alone costs ε = {step}{at}"
        return [f"{each}. The total of all answers, which the terms promise and the ledger debits, is ε = {total}{at}."]
    if part.training.series.joint:
        return [
            "The noise of an answer is calibrated for all answers together. The first answer spends the whole ε = "
            f"{total}{at}. Nothing is refunded if the learner asks no more questions."
        ]
    answers, entered, rows = len(part.training.rounds), part.training.series.count, privacy.records_per_person
    every = counted(answers, "answer")
    if learning.poisson:
        often = f"about {answers / (learning.batches or 1):,.0f} of {every}, and only this owner can know which answers"
    else:
        often = f"at most {entered:,} of {every}, one per epoch"
    in_answers = counted(min(rows * entered, answers), "answer")
    people = f". The {rows:,} records of one person are in up to {in_answers} in total" if rows > 1 else ""
    scored = "" if privacy.score_epsilon is None else " and the score"
    return [
        f"One answer alone costs ε = {step}{at}. Each record is used in {often}{people}. The total over all "
        f"{'rounds' if learning.epochs is None else 'epochs'}{scored}, which the terms promise and the ledger debits, "
        f"is ε = {total}{at}."
    ]


def _arrivals(agreement: Agreement) -> list[str]:
    """Return how often this owner is asked, and what else is seen, where nobody waits for the others."""
    if agreement.setup.schedule.waits:
        return []
    answers = len(agreement.part.training.rounds)
    return [
        "The learner uses answers as they arrive and asks you again after each answer, for at most "
        f"{counted(answers, 'answer')}. The noise is calibrated for exactly {counted(answers, 'answer')}. An answer "
        "that arrives too late to be used costs as much as any other answer. The learner sees when your answers "
        "arrive, and the promise does not cover these times."
    ]


def _liars_sentence(terms: Terms) -> list[str]:
    """Return what the learner does about owners that lie, where the terms say how many may."""
    section = terms.aggregation
    if section is None:
        return []
    return [
        f"The terms assume at most {counted(section.byzantine, 'lying owner')}. The learner combines the answers by "
        f"the rule {section.rule!r}. The learner's result names each owner whose answers the agreed "
        f"bound{'' if section.spread is None else ', the stated spread'} and the noise cannot explain. The promise to "
        "your people does not depend on the rule."
    ]


def _costs(books: Ledger, reservation: Reservation, known: bool) -> str:
    """Return what the terms cost of the lifetime budget, by the rule by which that is held."""
    lifetime, reserved, held = books.lifetime, books.reserved, books.rho
    budget, unit, before = f"ε = {number(lifetime[0])}", "ε", reserved[0]
    cost = reservation.epsilon if held is None else reservation.rho
    if held is not None:
        budget += f", δ = {number(lifetime[1])}, or ρ = {number(held[0], side='below')} in zCDP"
        unit, before = "ρ", held[1]
    already = f"{unit} = {number(before, side='above')} is already reserved."
    if cost is None and not known:
        return (
            "This ledger cannot accept these terms, because the terms' zCDP cost is not known; agree on other terms. "
            "Use laplace or gaussian noise that each owner draws itself (noise = 'each-owner'), and batches that are "
            f"not secret (sampling = 'partition'). The lifetime budget is {budget}, of which {already}"
        )
    now = (
        "nothing more, because you have already accepted them."
        if known
        else f"{unit} = {number(cost or 0, side='above')}."
    )
    deltas = (
        f" The lifetime δ is {number(lifetime[1])}, of which {number(reserved[1], side='above')} is already reserved."
    )
    return (
        f"These terms cost {now} The lifetime budget is {budget}, of which {already} Reserved budget is never "
        "refunded, even if it is not used." + (deltas if lifetime[1] > 0 and held is None else "")
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
        raise SettingError(f"{owner.name}: this owner has no durable ledger; create the owner with a parley.Ledger")
    return owner.ledger


MAX_LISTED_OWNERS = 20


def others_in(terms: Terms, owner: str) -> str:
    """Return who else the terms name, with how many records, at which epsilon."""
    others = [part for part in terms.owners if part.name != owner]
    if not others:
        return "These terms name no other owners."
    listed = [
        f"{part.name} ({part.records:,} records, ε = {number(part.epsilon, side='above')})"
        for part in others[:MAX_LISTED_OWNERS]
    ]
    more = f" and {len(others) - MAX_LISTED_OWNERS:,} more" if len(others) > MAX_LISTED_OWNERS else ""
    return (
        f"Other owners in these terms: {', '.join(listed)}{more}. This list does not show which owners have accepted "
        "the terms."
    )


def left_after(books: Ledger, reservation: Reservation, known: bool) -> str:
    """Return what would be left of the lifetime budget, or that the terms do not fit; `known` ones are accepted."""
    if not known:
        try:
            books.require_room(reservation)
        except ParleyError as refusal:
            return f"These terms do not fit into the lifetime budget. {refusal}."
    lifetime, reserved, held = books.lifetime, books.reserved, books.rho
    if held is not None:
        left = held[0] - held[1] - (0 if known else reservation.rho or 0)
        of_rho = f"ρ = {number(left, side='below')} of {number(held[0], side='below')}"
        return f"These terms leave {of_rho} in the lifetime budget for all further terms."
    cost = (0, 0) if known else (reservation.epsilon, reservation.delta)
    left, deltas = lifetime[0] - reserved[0] - cost[0], lifetime[1] - reserved[1] - cost[1]
    of_delta = f", δ = {number(deltas, side='below')} of {number(lifetime[1])}" if lifetime[1] > 0 else ""
    return (
        f"These terms leave ε = {number(left, side='below')} of {number(lifetime[0])}{of_delta} in the lifetime budget "
        "for all further terms."
    )
