"""What a run was, and what was promised, in words."""

from parley.learning.outcome.result import Result
from parley.numerals import number
from parley.protocol.task import task_of
from parley.terms.sections import OWNER

# wherever that is so; in JSON: "inside": true
INSIDE = "Computed from private rows without safe noise: keep it inside."
SIMULATION = (
    "Simulation, not a release: the noise is seeded and fast, not safe against floating-point attacks, and the "
    "quality figures come from the private tables themselves. Terms that were tuned by looking at them carry what "
    f"was seen. {INSIDE}"
)
RELEASE = (
    "Release: the noise is safe, every answer was debited in the owners' ledgers, and nothing else left their tables."
)
BY_THEIR_WORD = (
    "Release, as far as a learner can see: by each owner's own word every answer was debited in its ledger, at the "
    "cost that the terms say, and {}. What an owner computed it from, and with which noise, only its own people can "
    "see."
)
WITHIN = "no answer was larger than the agreed bound and noise can make it"
BROUGHT_WITHIN = "answers larger than the agreed bound and noise can make them were brought within these"
SHARED_BY_WORD = (
    "Release, as far as a learner can see: by each owner's own word every answer was debited in its ledger before "
    "its shares left, and the hosts opened the same sums, none larger than the agreed bounds and the noise "
    "can make it. Nobody saw a single owner's answer unless two hosts acted together."
)
SHARED_HERE = (
    "Release: every answer was debited in the owners' ledgers, and the noise was drawn by the protocol of the "
    "hosts - all of them in this process, so nothing keeps whoever runs it from looking."
)


def kind_of_run(result: Result) -> str:
    """Whether it was a simulation, a release, or a release by the word of owners elsewhere."""
    shared = result.terms.noise.summed
    if result.by_word:
        sizes = WITHIN if result.terms.aggregation is None else BROUGHT_WITHIN
        return SHARED_BY_WORD if shared else BY_THEIR_WORD.format(sizes)
    if result.released:
        return SHARED_HERE if shared else RELEASE
    return SIMULATION


def guarantee(result: Result) -> str:
    """A sentence that states what is guaranteed to whom."""
    privacy, shared = result.terms.privacy, result.terms.noise.summed
    people = (
        f"one {task_of(result.terms).unit} (one record)"
        if privacy.person is None
        else f"one person (at most {privacy.records_per_person} record(s))"
    )
    if privacy.unit == OWNER:
        people = "all records of one owner (a whole table, of the same public size)"
    subject = "Guarantee: each owner's answers together are" if result.released else "A release by these terms is"
    if result.terms.studied:
        subject = (
            "There is no release by these terms: stable noise has no exact sampler. Drawn exactly, it would make each "
            "owner's answers together"
        )
    if result.by_word:
        subject = "What the terms promise, and each owner's own software keeps: each owner's answers together are"
    whose = (
        f"ε = {number(result.terms.common_epsilon, side='above')}, the smallest of all owners',"
        if shared
        else "the owner's ε"
    )
    text = (
        f"{subject} ε-differentially private with {whose} and δ = {privacy.delta:g}; two tables are neighbours if they "
        f"differ in {people}, {result.adjacency}."
    )
    if shared:
        hosts = ", ".join(host.name for host in result.terms.hosts)
        two = result.terms.noise.hosts == 2
        text += f" It holds unless {'the two hosts' if two else 'two of the hosts'} {hosts} act together"
        text += ", and as long as neither's journal is put back to an earlier time." if two else "."
    if privacy.shared_records > 1:
        epsilon = number(result.shared_record_epsilon, side="above")
        text += f" A record that {privacy.shared_records} owners hold is covered by ε = {epsilon} over all of them."
    return text
