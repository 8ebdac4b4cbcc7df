"""An owner's own verdict on the joint model, in tables and sentences for the owner only."""

from collections.abc import Mapping, Sequence
from typing import Any

from parley.learning.outcome.correction import PersonalModel
from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
from parley.learning.outcome.verdict import FEW_HELD_OUT_ROWS, Estimate, Verdict
from parley.numerals import counted, interval_text, number

MODELS = ("together", "alone", "personal")
OWN_MODEL_WORDS = {
    "linear": "a linear model on its own rows",
    "linear and trees": "a linear model and trees on its own rows",
    "boosted trees": "boosted trees on its own rows",
    "the public fit": "the model fitted to the public sample",
}
WAY_LABELS = {
    "joint": "joint model",
    "ridge": "ridge towards it",
    "trees": "trees on top",
    "own": "trees alone",
    "alone": "model alone",
}

COMPARISON_NOTE = (
    "The owner's own model (alone) and its personal model come from the same procedure (parley refine). The owner's "
    "own model starts from the model fitted to the public sample, if there is a public sample."
)


def verdict_rows(verdict: Verdict) -> list[list[str]]:
    """Return a table of the three models' costs, with 90% intervals, and metrics."""
    same = verdict.same_for_all
    rows = [[f"{verdict.rows:,} held-out rows", "together", "alone", "personal"]]
    rows.append(["model", "joint", verdict.alone_model, verdict.personal_model])
    rows.append(["cost", *(number(verdict.costs[name].mean) for name in MODELS)])
    rows.append(["90% interval", *(_interval(verdict.costs[name]) for name in MODELS)])
    if same is not None:
        rows.append([f"always {_usual(verdict)}", *[number(same.mean)] * len(MODELS)])
    metrics = {"together": verdict.together, "alone": verdict.alone, "personal": verdict.personal}
    for name, value in verdict.together.items():
        if value is not None:
            rows.append([name.replace("_", " "), *(number(metrics[model][name]) for model in MODELS)])
    return rows


SAME_PEOPLE_WARNING = (
    "Rows are held out one by one, so a person with several rows can be in both training and scoring. If "
    "people are in both training and scoring, every model looks better than it is. The overestimate is largest for "
    "models fitted to the owner's rows. For new people, joining may save more than these figures show."
)


def explained(verdict: Verdict) -> list[str]:
    """Explain the table: how models are made, which are useless, what a metric means, what was clipped."""
    lines, same = [COMPARISON_NOTE], verdict.same_for_all
    if same is not None:
        worse = [name for name in MODELS if not verdict.costs[name].mean < same.mean]
        if worse:
            lines.append(
                f"Models that are worse than always predicting {_usual(verdict)} are useless: {', '.join(worse)}."
            )
    if "recall_at_1_percent" in verdict.together:
        lines.append(
            "Recall at 1 percent is the share of all rows with label 1 that are among the 1% of rows with the highest "
            "scores."
        )
    if verdict.target_range is not None:
        low, high = (number(end) for end in verdict.target_range)
        lines.append(f"Targets are clipped to {low} to {high} (model.bounds), as in training.")
    if verdict.rows_per_person > 1:
        lines.append(SAME_PEOPLE_WARNING)
    return lines


def headline(verdict: Verdict) -> str:
    """Say which model is best on this owner's own rows, and how certain that is."""
    best = min(MODELS, key=lambda name: verdict.costs[name].mean)
    own = OWN_MODEL_WORDS[verdict.alone_model]
    joint = "the model refined from the joint model" if verdict.refined else "the joint model"
    words = {"together": joint, "alone": own, "personal": "its personal model"}
    gain = verdict.personal_gain
    if verdict.one_class:
        return (
            f"{verdict.owner}'s own rows have only one class, so the joint model cannot be compared with the owner's "
            f"own model. On the owner's rows, the joint model's cost is {number(verdict.cost_together)}.{_few(verdict)}"
        )
    if gain.low == gain.high == 0:
        changed = f"Joining changes nothing on {verdict.owner}'s own rows"
        return f"{changed}, because the owner's personal model is {own}.{_few(verdict)}"
    if "trees" in verdict.alone_model and "trees" in verdict.personal_model and gain.low <= 0 <= gain.high:
        return (
            f"Joining makes no significant difference on {verdict.owner}'s own rows: it saves {_interval(gain)} per "
            f"row (90% interval). With and without the other owners, {verdict.owner} uses {own}.{_few(verdict)}"
        )
    sure = "" if gain.low > 0 or gain.high < 0 else " The difference may be due to chance."
    adds, shown = ("saves", gain) if gain.mean > 0 else ("costs", Estimate(-gain.mean, -gain.high, -gain.low))
    return (
        f"The best model on {verdict.owner}'s own rows is {best} ({words[best]}). With the personal model, joining "
        f"{adds} {verdict.owner} {number(shown.mean)} per row (90% interval: {_interval(shown)}).{sure}{_few(verdict)}"
    )


def owners_rows(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Return a table of all owners' costs, and what joining adds for each."""
    rows = [["owner", "held out", *MODELS, "personal gain, 90%"]]
    for verdict in verdicts:
        costs = [number(verdict.costs[name].mean, 3) for name in MODELS]
        gain = interval_text(verdict.personal_gain.low, verdict.personal_gain.high, 2)
        rows.append([verdict.owner, f"{verdict.rows:,}", *costs, gain])
    return rows


def owners_sentence(verdicts: Sequence[Verdict]) -> str:
    """Say for how many owners joining was worth it."""
    better = sum(v.personal_gain.mean > 0 for v in verdicts)
    surely = sum(v.personal_gain.low > 0 for v in verdicts)
    worse = sum(v.personal_gain.high < 0 for v in verdicts)
    joint = sum(v.gain > 0 for v in verdicts)
    few = sum(v.rows < FEW_HELD_OUT_ROWS for v in verdicts)
    use = counted(few, "verdict uses", "verdicts use")
    rests = f" {use} fewer than {FEW_HELD_OUT_ROWS} held-out rows." if few else ""
    useless = [v for v in verdicts if v.same_for_all is not None and not v.costs["together"].mean < v.same_for_all.mean]
    if useless:
        constant = f"always predicting {_usual(useless[0])} costs no more"
        rests += f" For {counted(len(useless), 'owner')}, the joint model is useless, because {constant}."
    rests += f" {SAME_PEOPLE_WARNING}" if any(v.rows_per_person > 1 for v in verdicts) else ""
    return (
        f"{surely or 'None'} of {counted(len(verdicts), 'owner')} {'gains' if surely == 1 else 'gain'} significantly "
        f"with a personal model on their own held-out rows. {counted(better, 'owner')} "
        f"{'gains' if better == 1 else 'gain'} on average and {worse} {'loses' if worse == 1 else 'lose'} "
        f"significantly. For {counted(joint, 'owner')}, the unchanged joint model beats the owner's own model.{rests}"
    )


def way_rows(how: PersonalModel, unit: float = 1.0) -> list[list[str]]:
    """Return a table of what each personal model costs, cross-validated, in full and as kept; 1 is `unit` squared
    units."""
    rows = [["cross-validated", "full cost", "share kept", "cost as kept", "saves", "std. error"]]
    for way in how.ways:
        first = [WAY_LABELS[way.name], number(unit * way.full)]
        kept = [f"{way.share:.0%}", *(number(unit * each) for each in (way.loss, way.gain, way.error))]
        rows.append([*first, *(kept if way.name != "joint" else [""] * 4)])
    return rows


def personal_sentence(owner: str, how: PersonalModel, unit: float = 1.0) -> str:
    """Say which personal model was chosen."""
    if how.chosen == "joint":
        return f"{owner}'s personal model is the joint model, because no other model proved better on the owner's rows."
    parts = ", ".join(f"{share:.0%} towards {centre}" for centre, share in how.shares.items() if share >= 0.005)
    ridge = f"a ridge fit to its own rows, pulled {parts}" if how.ways[1].share > 0 else "the joint model"
    kept = how.kept
    trees = ", plus trees trained on its own rows" if kept.get("trees", 0.0) > 0 else ""
    own = (
        f", moved {kept['own']:.0%} of the way to trees trained on its own rows alone"
        if kept.get("own", 0.0) > 0
        else ""
    )
    back = f", moved {kept['alone']:.0%} of the way to its own model" if kept.get("alone", 0.0) > 0 else ""
    dearer = (
        " It can exceed the joint model's cost, because each row is judged with shares that were chosen without it."
        if how.loss > how.ways[0].loss
        else ""
    )
    return (
        f"{owner}'s personal model is {ridge}{trees}{own}{back}. The personal model's cross-validated cost is "
        f"{number(unit * how.loss)}.{dearer}"
    )


def _interval(estimate: Estimate) -> str:
    return interval_text(estimate.low, estimate.high)


def _usual(verdict: Verdict) -> str:
    """Name the best constant answer for the owner's training rows."""
    if "concordance" in verdict.together:
        return "the average hazards"
    return "the mean" if verdict.target_words is None else "the usual share"


def _few(verdict: Verdict) -> str:
    return (
        f" The verdict is based on only {counted(verdict.rows, 'held-out row')}."
        if verdict.rows < FEW_HELD_OUT_ROWS
        else ""
    )


def owners_scores(scores: Sequence[Mapping[str, Any]], rows_per_person: int) -> tuple[dict[str, Any], list[Estimate]]:
    """Return (headline, table and audience; every owner's gain) from the output of `parley score --all --json`."""
    verdicts = [
        Verdict(
            each["name"],
            each["rows"],
            {},
            {},
            {},
            {name: Estimate(**cost) for name, cost in each["costs"].items()},
            Estimate(**each["joint_gain"]),
            Estimate(**each["personal_gain"]),
            rows_per_person=rows_per_person,
        )
        for each in scores
    ]
    words = {"headline": owners_sentence(verdicts), "rows": owners_rows(verdicts), "inside": KEEP_INSIDE_NOTE}
    return words, [each.personal_gain for each in verdicts]
