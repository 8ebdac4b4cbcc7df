"""An owner's own verdict on the joint model, as a table and in words. For its eyes only."""

from collections.abc import Sequence

from parley.learning.outcome.correction import PersonalModel
from parley.learning.outcome.verdict import FEW, Estimate, Verdict
from parley.numerals import counted, ends, number

MODELS = ("together", "alone", "personal")
OF_OWN_ROWS = {
    "linear": "a linear model of its own rows",
    "linear and trees": "a linear model and trees of its own rows",
    "boosted trees": "boosted trees of its own rows",
    "the public fit": "the public sample's fit",
}
WAYS = {
    "joint": "the joint model",
    "ridge": "a ridge towards it",
    "trees": "trees on top",
    "own": "trees alone",
    "alone": "the model alone",
}

COMPARED = "Alone and personal are made by one procedure, that of parley refine: alone from the public fit, if any."


def verdict_rows(verdict: Verdict) -> list[list[str]]:
    """Costs and metrics of the three models, costs with their 90 % intervals."""
    alone, personal = f"alone ({verdict.alone_model})", f"personal ({verdict.personal_model})"
    same = verdict.same_for_all
    rows = [[f"{verdict.rows:,} held-out rows of {verdict.owner}", "together", alone, personal]]
    rows.append(["cost", *(number(verdict.costs[name].mean) for name in MODELS)])
    rows.append(["90 % interval", *(_interval(verdict.costs[name]) for name in MODELS)])
    if same is not None:
        rows.append([f"cost of always predicting {_usual(verdict)}", *[number(same.mean)] * len(MODELS)])
    metrics = {"together": verdict.together, "alone": verdict.alone, "personal": verdict.personal}
    for name, value in verdict.together.items():
        if value is not None:
            rows.append([name.replace("_", " "), *(number(metrics[model][name]) for model in MODELS)])
    return rows


SAME_PEOPLE = (
    "A person may have several rows, and rows are held out one by one: people who are scored are learned from, too. "
    "That flatters every model, those of own rows most; for people nobody has seen, joining may save more than this."
)


def explained(verdict: Verdict) -> list[str]:
    """What the table does not say of itself: how its models are made, what models that are of no use are beside, what a
    figure means, what was cut."""
    said, same = [COMPARED], verdict.same_for_all
    if same is not None:
        worse = [name for name in MODELS if not verdict.costs[name].mean < same.mean]
        if worse:
            said.append(f"Worse than always predicting {_usual(verdict)}, so of no use here: {', '.join(worse)}.")
    if "recall_at_1_percent" in verdict.together:
        said.append(
            "recall at 1 percent: of the rows that count as 1, the share among the 1 % with the highest scores."
        )
    if verdict.target_range is not None:
        low, high = (number(end) for end in verdict.target_range)
        said.append(f"Targets beyond {low} to {high} (model.bounds) are cut to that, here as in training.")
    if verdict.rows_per_person > 1:
        said.append(SAME_PEOPLE)
    return said


def headline(verdict: Verdict) -> str:
    """Which model serves this owner's own rows best, how sure that is, and on how little it rests."""
    best = min(MODELS, key=lambda name: verdict.costs[name].mean)
    own = OF_OWN_ROWS[verdict.alone_model]
    joint = "what was refined from the joint model" if verdict.refined else "the joint model"
    words = {"together": joint, "alone": own, "personal": "its personal model"}
    gain = verdict.personal_gain
    if verdict.one_class:
        said = (
            f"{verdict.owner}'s own rows show one class alone, so it has nothing to compare with: the joint model "
            f"costs "
        )
        return f"{said}{number(verdict.cost_together)} there.{_few(verdict)}"
    if gain.low == gain.high == 0:
        return f"Joining changes nothing for {verdict.owner}'s own rows: the personal model is {own}.{_few(verdict)}"
    if "trees" in verdict.alone_model and "trees" in verdict.personal_model and gain.low <= 0 <= gain.high:
        return (
            f"Joining makes no difference that shows on {verdict.owner}'s own rows: with and without the others its "
            f"model is {own} ({_interval(gain)} saved a row, 90 %).{_few(verdict)}"
        )
    sure = "" if gain.low > 0 or gain.high < 0 else ", which may be chance"
    adds, shown = ("saves", gain) if gain.mean > 0 else ("costs", Estimate(-gain.mean, -gain.high, -gain.low))
    return (
        f"Better for {verdict.owner}'s own rows: {best} ({words[best]}). Joining {adds} it {number(shown.mean)} "
        f"a row with the personal model (90 %: {_interval(shown)}){sure}.{_few(verdict)}"
    )


def owners_rows(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """All owners' costs, and what joining adds for each."""
    rows = [["owner", "held out", *MODELS, "personal gain, 90 %"]]
    for verdict in verdicts:
        costs = [number(verdict.costs[name].mean) for name in MODELS]
        rows.append([verdict.owner, f"{verdict.rows:,}", *costs, _interval(verdict.personal_gain)])
    return rows


def owners_sentence(verdicts: Sequence[Verdict]) -> str:
    """For how many joining was worth it."""
    better = sum(v.personal_gain.mean > 0 for v in verdicts)
    surely = sum(v.personal_gain.low > 0 for v in verdicts)
    worse = sum(v.personal_gain.high < 0 for v in verdicts)
    joint = sum(v.gain > 0 for v in verdicts)
    few = sum(v.rows < FEW for v in verdicts)
    rests = f" {counted(few, 'verdict rests', 'verdicts rest')} on fewer than {FEW} rows." if few else ""
    rests += f" {SAME_PEOPLE}" if any(v.rows_per_person > 1 for v in verdicts) else ""
    return (
        f"On their own rows, with personal models, joining pays for {surely or 'none'} of "
        f"{counted(len(verdicts), 'owner')} beyond chance (for {better} on average; {worse} lose beyond chance); the "
        f"joint model as it is for {joint}."
        f"{rests}"
    )


def way_rows(how: PersonalModel, unit: float = 1.0) -> list[list[str]]:
    """What every way to a personal model costs on rows that it was not made of, in full and as far as it is kept; a
    cost of 1 is `unit` in the target's own units, squared."""
    rows = [["on own rows, cross-validated", "cost in full", "kept", "cost as kept", "saves", "standard error"]]
    for way in how.ways:
        first = [WAYS[way.name], number(unit * way.full)]
        kept = [f"{way.share:.0%}", *(number(unit * each) for each in (way.loss, way.gain, way.error))]
        rows.append([*first, *(kept if way.name != "joint" else [""] * 4)])
    return rows


def personal_sentence(owner: str, how: PersonalModel, unit: float = 1.0) -> str:
    """Which way to a personal model was chosen."""
    if how.chosen == "joint":
        return f"{owner}'s personal model is the joint model: its own rows do not show that another one is better."
    parts = " and ".join(
        f"{share:.0%} pulled towards {centre}" for centre, share in how.shares.items() if share >= 0.005
    )
    ridge = f"its own rows, {parts}" if how.ways[1].share > 0 else "the joint model"
    kept = how.kept
    trees = " and trees of its own rows on top" if kept.get("trees", 0.0) > 0 else ""
    own = f", {kept['own']:.0%} of the way to trees of its own rows alone" if kept.get("own", 0.0) > 0 else ""
    back = f", {kept['alone']:.0%} of the way to its model alone" if kept.get("alone", 0.0) > 0 else ""
    return f"{owner}'s personal model: {ridge}{trees}{own}{back}; cost {number(unit * how.loss)} in cross-validation."


def _interval(estimate: Estimate) -> str:
    return ends(estimate.low, estimate.high)


def _usual(verdict: Verdict) -> str:
    """The one answer for all that is the best for the owner's training rows."""
    if "concordance" in verdict.together:
        return "the hazards of all"
    return "the mean" if verdict.target_words is None else "the usual share"


def _few(verdict: Verdict) -> str:
    return f" This is a verdict on {counted(verdict.rows, 'row')}." if verdict.rows < FEW else ""
