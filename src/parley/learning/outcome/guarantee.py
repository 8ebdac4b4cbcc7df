"""The kind of a run and its guarantee, in words."""

from parley.learning.outcome.result import Result
from parley.numerals import counted, number
from parley.owner.disclosure import hosts_condition
from parley.protocol.task import Task, task_of
from parley.terms.sections import OWNER_UNIT

# wherever that is so; in JSON: "inside": true
KEEP_INSIDE_NOTE = "Computed from private rows without safe noise: keep it inside."
SIMULATION_NOTE = (
    "Simulation, not a release: the noise is seeded and not safe against floating-point attacks. Quality figures come "
    "from the private tables themselves, and terms tuned by looking at them reveal what was seen. "
    f"{KEEP_INSIDE_NOTE}"
)
RELEASE_NOTE = (
    "Release: the noise is safe, every answer was debited in the owners' ledgers, and nothing else left their tables."
)
BY_THEIR_WORD = (
    "Release, as far as a learner can see: each owner states that every answer was debited in its ledger at the cost "
    "in the terms, and {}. Only an owner's own people can see what it computed and which noise it added."
)
WITHIN_BOUND = "no answer was larger than bound plus noise can explain"
BROUGHT_WITHIN = "answers larger than bound plus noise can explain were cut to that size"
SHARED_BY_WORD = (
    "Release, as far as a learner can see: each owner states that every answer was debited in its ledger before its "
    "shares left. The hosts opened the same sums, none larger than bound plus noise can explain. Nobody saw a single "
    "owner's answer unless two hosts acted together{}."
)
SHARED_HERE = (
    "Release: every answer was debited in the owners' ledgers, and the hosts' protocol drew the noise. All hosts ran "
    "in this process, so whoever runs it could look."
)


def kind_of_run(result: Result) -> str:
    """Say whether it was a simulation, a release, or a release by the word of owners elsewhere."""
    shared = result.terms.noise.summed
    if result.by_word:
        sizes = WITHIN_BOUND if result.terms.aggregation is None else BROUGHT_WITHIN
        departed = " or a host departed from the protocol" if result.terms.noise.paired else ""
        return SHARED_BY_WORD.format(departed) if shared else BY_THEIR_WORD.format(sizes)
    if result.released:
        return SHARED_HERE if shared else RELEASE_NOTE
    return SIMULATION_NOTE


def guarantee(result: Result) -> str:
    """Say what is guaranteed to whom, in a sentence."""
    privacy, shared = result.terms.privacy, result.terms.noise.summed
    unit = task_of(result.terms).unit
    if privacy.person is not None:
        people = f"one person, who has at most {counted(privacy.records_per_person, 'row')}"
    else:
        people = "one person, who has one row" if unit == Task.unit else f"one {unit}, which is one record"
    if privacy.unit == OWNER_UNIT:
        people = "all records of one owner, whose table keeps its public size"
    subject = "Guarantee: each owner's answers together are" if result.released else "A release under these terms is"
    if result.terms.studied:
        subject = (
            "There is no release under these terms: stable noise has no exact sampler. Drawn exactly, it would make "
            "each owner's answers together"
        )
    if result.by_word:
        subject = "What the terms promise, and each owner's own software keeps: each owner's answers together are"
    whose = (
        f"ε = {number(result.terms.common_epsilon, side='above')}, the smallest of all owners',"
        if shared
        else "the owner's ε"
    )
    text = (
        f"{subject} (ε, δ)-differentially private with {whose} and δ = {privacy.delta:g}. Two tables are neighbours if "
        f"they differ in {people} ({result.adjacency} adjacency)."
    )
    if shared:
        text += f" {hosts_condition(result.terms)}"
    if privacy.shared_records > 1:
        epsilon = number(result.shared_record_epsilon, side="above")
        text += f" A record that {privacy.shared_records} owners hold is covered by ε = {epsilon} over all of them."
    return text
