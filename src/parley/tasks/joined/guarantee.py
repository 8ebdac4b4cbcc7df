"""What joined tables promise a person, in sentences."""

from parley.numerals import number
from parley.tasks.joined.plan import JoinPlan
from parley.validate import printable, upper


def guarantee_sentences(plan: JoinPlan) -> list[str]:
    """Return the guarantee of a release under these terms, and its limits."""
    terms, join, law = plan.terms, plan.join, plan.law
    epsilon, delta = number(upper(terms.common_epsilon), side="above"), number(terms.privacy.delta, side="above")
    count, rest = number(join.epsilon, side="above"), number(upper(law.epsilon), side="above")
    hosts = ", ".join(host.name for host in terms.hosts)
    return [
        f"A release under these terms is (ε, δ)-differentially private for every person, in all tables together, with "
        f"ε = {epsilon} and δ = {delta}: {count} for the number of matches that hosts see, {rest} for the moments that "
        "the learner sees.",
        "Two sets of tables are neighbours if one person's row in some of them becomes that of one newcomer, who was "
        "in none of these tables. Table sizes are public. A person replaced by two people who are already in other "
        "tables is not covered.",
        f"The guarantee holds if at most one of the hosts {hosts} looks at what it receives, no two act together, and "
        "all follow the protocol. Owners may lie about their own rows.",
        f"One person moves the {law.noise.size:,} opened numbers by at most {number(law.moved / law.unit**2)} in L2. "
        f"The noise in each has standard deviation {number(law.deviation)}.",
    ]


def purpose_sentences(plan: JoinPlan, name: str) -> list[str]:
    """Return what an owner's table is for, before it accepts."""
    terms = plan.terms
    own = ", ".join(printable(column) for column in terms.owner(name).columns or ())
    others = " and ".join(printable(owner.name) for owner in terms.owners if owner.name != name)
    return [
        f"Model: {terms.model.kind} of {printable(terms.model.target)!r}, over the people who are in your table and in "
        f"those of {others}.",
        f"Your columns: {own}. The column {printable(plan.join.key)!r} names people and must name each once.",
        "The hosts match people by encrypted names that they cannot read. They refuse a table with a row beyond its "
        "clip or a name that comes twice.",
        "Beyond ε, no owner and no host learns who is in another table. Hosts see how many people match, with dummies "
        "added.",
    ]


def limit_sentences(plan: JoinPlan, name: str) -> list[str]:
    """Return the limits on a person's row."""
    law, clip = plan.law, plan.clip(name)
    return [
        "Values are divided by their bounds, and your part of a person's row is shortened to a norm of at most "
        f"{number(clip / law.unit)}. Of ε, {number(plan.join.epsilon, side='above')} is for the number of matches.",
        f"One person moves the {law.noise.size:,} opened numbers by at most {number(law.moved / law.unit**2)} in L2. "
        f"The noise in each has standard deviation {number(law.deviation)}.",
    ]
