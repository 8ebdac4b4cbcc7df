"""Exhibits of Z's tables 4.1, 4.3 and 4.5: accuracies published, kept and trained now, beside eps in three readings."""

import math
from dataclasses import replace
from typing import Any

from parley.errors import SettingError
from parley.numerals import number
from parley.privacy.events import Adjacency
from parley.report.extras import extras
from parley_lab.papers.document import Parts, Progress, Shown, Titled
from parley_lab.papers.zawacki2024.network_epsilons import NetworkEpsilons, row_epsilons, sound_epsilon
from parley_lab.papers.zawacki2024.network_images import table_images
from parley_lab.papers.zawacki2024.published_networks import PUBLISHED_TABLES, NetworkTable
from parley_lab.papers.zawacki2024.settings import NetworkTrials, Trials
from parley_lab.papers.zawacki2024.trained_networks import (
    STABLE_ALPHA,
    Law,
    TableRuns,
    equal_law,
    kept_runs,
    laws,
    train_table,
)

Entry = dict[str, Any]
LAW_COLUMNS = ["α", "scale"]
EPSILON_COLUMNS = ["ε printed", "one-dim.", "charged", "bound"]
WIDER_CLIP = "clip_2"  # what was trained with gradients clipped at twice the printed norm, and the same noise
ADJACENCY = {
    "one_epsilon": Adjacency.ADD_OR_REMOVE_ONE,
    "charged_epsilon": Adjacency.ADD_OR_REMOVE_ONE,
    "sound_epsilon": Adjacency.REPLACE_ONE,
}
READINGS_NOTE = (
    "ε of all steps at the published size, δ = 1e-05. One-dim(ensional): Z's, add/remove, for one coordinate alone. "
    "Charged: the same for gradients clipped at twice the printed norm, by which Z's Gaussian rows come out; no rule "
    "is known for the others. Bound: the sound one at the printed norm, replace-one, every direction; Gaussian by its "
    "loss distribution, α < 2 by Rényi divergences, which is all that is proved there."
)


def table(bench: Trials, word: str, progress: Progress) -> Shown:
    """One of the tables."""
    published, settings = PUBLISHED_TABLES[word], bench.networks
    found = _trained(published, settings, bench.seed, progress) if settings.trials is not None else None
    kept = kept_runs(word)
    entries = [_entry(published, law, kept, found) for law in laws(published)]
    equal = [_equal(published, runs) for runs in (kept, found) if runs is not None]
    content = {
        "delta": published.delta,
        "adjacency": ADJACENCY,
        "rows": entries,
        "equal_sound_epsilon": equal,
        **{name: None if runs is None else _about(runs) for name, runs in (("kept", kept), ("now", found))},
    }
    return Shown({"tables": {word: content}}, _parts(published, entries, equal, kept, found))


def _trained(table: NetworkTable, settings: NetworkTrials, seed: int, progress: Progress) -> TableRuns:
    with extras():
        import torch

    device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
    images = table_images(table.word, settings.folder, settings.images)
    return train_table(table, images, settings.trials or 0, settings.epochs, device, seed, progress=progress)


def _entry(table: NetworkTable, law: Law, kept: TableRuns | None, found: TableRuns | None) -> Entry:
    """One row: its law, what was published of it, its epsilons, and the runs clipped at 1 and at 2."""
    alpha, scale = law.alpha, law.scale
    printed = next((row for row in table.rows if (row.alpha, row.scale) == (alpha, scale)), None)
    epsilons = row_epsilons(table, alpha, scale) if scale else None
    accuracy, deviation = table.silent if law.clip is None else (None, None)
    if printed is not None:
        accuracy, deviation = printed.accuracy, table.deviations[table.rows.index(printed)]
    runs = {"kept": kept, "now": found}
    wider = [_runs(f"{name}_{WIDER_CLIP}", each, law.clipped_at_2 if law.clip else None) for name, each in runs.items()]
    return {
        "alpha": alpha if scale else None,
        "scale": scale or None,
        "clip": law.clip,
        "published_epsilon": None if printed is None else printed.epsilon,
        **_readings(epsilons),
        "published": accuracy,
        "published_deviation": deviation,
        **_runs("kept", kept, law),
        **_runs("now", found, law),
        **{name: value for each in wider for name, value in each.items()},
    }


def _readings(epsilons: NetworkEpsilons | None) -> Entry:
    names = ("one", "charged", "sound")
    return {f"{name}_epsilon": None if epsilons is None else getattr(epsilons, name) for name in names}


def _runs(name: str, runs: TableRuns | None, law: Law | None) -> Entry:
    row = None if runs is None or law is None else runs.row(law)
    deviation = None if row is None or math.isnan(row.deviation) else row.deviation
    return {name: None if row is None else row.mean, f"{name}_deviation": deviation}


def _equal(table: NetworkTable, runs: TableRuns) -> Entry:
    """Gaussian noise and alpha = 1.999 where one sound bound gives both the same eps: how far apart they are, in
    points, and the error of that."""
    law = equal_law(table)
    scale, gaussian, stable = law.scale, runs.row(replace(law, alpha=2.0)), runs.row(law)
    if gaussian is None or stable is None:
        raise SettingError(f"table {table.word}: these runs lack the rows at scale {scale:g}; train it again")
    variance = gaussian.deviation**2 / len(gaussian.accuracies) + stable.deviation**2 / len(stable.accuracies)
    return {
        "scale": scale,
        "gaussian_epsilon": sound_epsilon(table, 2.0, scale, same_bound=True),
        "stable_epsilon": sound_epsilon(table, STABLE_ALPHA, scale, same_bound=True),
        "gaussian": gaussian.mean,
        "stable": stable.mean,
        "standard_error": None if math.isnan(variance) else math.sqrt(variance),
    }


def _about(runs: TableRuns) -> Entry:
    trials = len(runs.rows[0].accuracies)
    facts = {name: getattr(runs, name) for name in ("data", "images", "epochs", "step", "momentum", "command")}
    return {**facts, "trials": trials}


def _parts(
    table: NetworkTable, entries: list[Entry], equal: list[Entry], kept: TableRuns | None, found: TableRuns | None
) -> Parts:
    names = [name for name, runs in (("kept", kept), ("now", found)) if runs is not None]
    columns = ["published", *(f"{name}{clip}" for name in names for clip in ("", f"_{WIDER_CLIP}"))]
    heads = [f"{name.replace(f'_{WIDER_CLIP}', ', clip 2')} %" for name in columns]
    noisy = [entry for entry in entries if entry["scale"] is not None]
    parts: Parts = [
        Titled(
            f"Table {table.word}: {table.network}, {table.epochs} epochs",
            [[*LAW_COLUMNS, *heads], *([*_law(entry), *_accuracies(entry, columns)] for entry in entries)],
        ),
        Titled(
            "What each costs",
            [[*LAW_COLUMNS, *EPSILON_COLUMNS], *([*_law(entry), *_epsilons(entry)] for entry in noisy)],
        ),
        READINGS_NOTE,
    ]
    for name, runs in (("Kept", kept), ("Now", found)):
        if runs is not None:
            about = f"{len(runs.rows[0].accuracies)} trials a row, {runs.data}, {runs.images:,} images"
            parts.append(f"{name}: {about}, {runs.epochs:g} epochs.")
    parts.append(table.stated)
    return [*parts, *(_sentence(each) for each in equal)]


def _law(entry: Entry) -> list[str]:
    if entry["scale"] is None:
        return ["–", "no clip" if entry["clip"] is None else "clip alone"]
    return [f"{entry['alpha']:g}", f"{entry['scale']:g}"]


def _epsilons(entry: Entry) -> list[str]:
    above = [number(entry[f"{name}_epsilon"], 3, side="above") for name in ("one", "charged", "sound")]
    return [number(entry["published_epsilon"]), *above]


def _accuracies(entry: Entry, columns: list[str]) -> list[str]:
    return [_accuracy(entry[name], entry[f"{name}_deviation"]) for name in columns]


def _accuracy(mean: float | None, deviation: float | None) -> str:
    if mean is None:
        return "–"
    return f"{mean:.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")


def _sentence(equal: Entry) -> str:
    error = "" if equal["standard_error"] is None else f" ± {equal['standard_error']:.2f}"
    apart = equal["stable"] - equal["gaussian"]
    epsilons = [number(equal[f"{name}_epsilon"], 3, side="above") for name in ("gaussian", "stable")]
    return (
        f"At equal sound ε (scale {equal['scale']:g}; by Rényi divergences for both, {epsilons[0]} and {epsilons[1]}): "
        f"Gaussian {equal['gaussian']:.2f} %, α = {STABLE_ALPHA:g} {equal['stable']:.2f} %, apart by "
        f"{apart:+.2f}{error} points."
    )
