"""Write terms back to TOML, and check that a file still holds the terms that somebody read."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.durable import store_address, write_file
from parley.errors import SettingError
from parley.terms.agreement import Terms
from parley.terms.keys import Section
from parley.terms.sections import Host, OwnerTerms

KEY_NOTES: Mapping[str, str] = {
    "model.kind": "linear-regression: a number; logistic-regression: two classes; softmax-regression: several; "
    "poisson-regression: a count; survival: a time; boosted-regression and boosted-classification: by trees",
    "model.target": "what is predicted",
    "model.event": "1: it happened at that time; 0: it had not by then",
    "model.periods": "in which time is cut, by their ends",
    "model.exposure": "how much, or how long, each count was counted in",
    "model.features": "what it is predicted from",
    "model.positive": "counts as 1, every other name as 0",
    "model.merged": "columns of names in which capitals and spaces do not count",
    "model.dates": "columns of dates, and how they are written: each becomes days since 1970-01-01, as do its bounds",
    "model.coding": "each name of a category is a column of 0 and 1",
    "model.missing": "fill: the public median and a 0/1 column that says so; in a column of names, one more name",
    "model.bounds": "private values are cut to these; from public knowledge, never from private rows",
    "model.categories": "names that are told apart; any other is none of them. Never from private rows",
    "model.centres": "taken from each value before it is scaled",
    "model.scales": "one unit of each column",
    "model.public": "a public sample: ranges, scales, categories, and what plans are judged on. Nobody's private rows",
    "model.public_sha256": "so that all parties use the same one",
    "model.preparation": "public numbers found once: bounds, scales, directions; machines would find other directions",
    "model.preparation_sha256": "so that all parties use the same ones",
    "model.whitening": "features are turned: public: uncorrelated on the public sample; public-curvature: each bends "
    "its cost alike",
    "model.basis": "features by nearness to public points, waves or polynomials, instead of the columns",
    "model.columns": "bins: numbers cut at public quantiles; hinges: joined by lines; trees: leaves of public trees",
    "model.bins": "for each column of numbers, at most",
    "model.crossed": "pairs of columns whose coarser bins are combined, for what two do only together",
    "model.trees": "how many, of how many leaves, of how many public rows each; how fast they are grown; refitted: of "
    "how many the leaves are columns, what the others say being a public margin; 0: straight lines beside it",
    "model.intercept": "a constant beside the features",
    "model.radius": "no parameter leaves the box |theta| <= radius",
    "model.holdout": "share of each owner's rows kept for scoring: never learned from",
    "model.holdout_seed": "which rows those are follows from it and their places, without the rest of the table",
    "model.holdout_by": "person: all rows of a person are learned from, or none is, by a hash of the person's name",
    "model.regularisation": "weight of |theta|^2 / 2",
    "learning.algorithm": "how answers become a model; parley plan compares",
    "learning.horizon": "rounds: how often owners are asked; their budgets are spread over all of them",
    "learning.step": "how far the learner moves on an answer",
    "learning.average": "which iterates make the model: the last, the last half, or all",
    "learning.decay": "steps shrink with this power of the round; 0: they do not",
    "learning.momentum": "how much of the last step is kept in the next",
    "learning.start": "public: training begins at the best fit of the public sample",
    "learning.top_k": "so many numbers of a released gradient travel, those that changed most",
    "learning.staleness": "answers are used as they come, if the model took no more steps since they were asked for",
    "learning.learner": "who asks",
    "privacy.mechanism": "laplace: no delta; gaussian: less noise over many rounds, with a delta",
    "privacy.alpha": "of stable noise: how heavy its tails are, 1 (Cauchy) to 1.9999; for simulations alone",
    "privacy.clip": "no record's gradient counts for more than this: what one person can do, and how loud the noise is",
    "privacy.delta": "with which probability the promise of epsilon may fail; well below 1/records",
    "privacy.person": "the column that tells people apart",
    "privacy.records_per_person": "of each person so many rows count, and all of them are protected together",
    "privacy.score_epsilon": "of every epsilon, for one released score of the finished model",
    "privacy.scale_epsilon": "of every epsilon, for ranges and category names, asked with noise before anything is "
    "learned",
    "privacy.difference_epsilon": "of every epsilon, for one answer that tells how much owners differ, asked before "
    "anything is learned",
    "privacy.unit": "owner: answers are clipped as a whole, and the noise hides a whole table, not one person in it",
    "privacy.noise": "shared: one noise for all, drawn by three hosts (none of them knows it) or two",
    "aggregation.rule": "how answers become one; all but the mean hold where some owners lie, and cost noise",
    "aggregation.byzantine": "how many owners may lie",
    "aggregation.spread": "how far apart honest owners' answers lie at most, noise aside: who is farther is named",
    "owners.records": "rows in the table: public, and checked",
    "owners.epsilon": "what all answers together may tell about a person, at most; smaller = more private",
    "owners.answers": "the most answers that it gives; its noise is for exactly so many",
    "owners.data": "for runs on one machine; left out of the terms' hash",
}


@dataclass(frozen=True)
class TermsWarning:
    """Something suspicious in the terms; `about` names the key."""

    about: str
    sentence: str

    @property
    def line(self) -> str:
        """The warning as a remark."""
        return f"Check {self.about}. {self.sentence}"


MIN_HASH_DIGITS = 8  # of a hash, at least: fewer would fit other terms by chance
ALWAYS_WRITTEN_KEYS = {
    "algorithm",
    "horizon",
    "step",
    "mechanism",
    "rule",
}  # written even where they are what a file without them means


def write_terms(terms: Terms, path: Path, head: Sequence[str] = (), notes: Mapping[str, str] | None = None) -> None:
    """Write a terms file without keys that have default values, so the hash stays; paths become relative to its folder.
    `notes` are comments by key (such as "privacy.clip"; only the first owner gets them), `head` is text above
    everything."""
    folder = str(path.resolve().parent)
    content = terms.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    for part in (content["model"], *content["owners"]):
        for key in ("public", "preparation", "data"):
            if key in part:
                part[key] = store_address(part[key]) or os.path.relpath(part[key], folder)
    lines = [*(f"# {text}".rstrip() for text in head), *([""] if head else [])]
    lines += [f"{key} = {_value(value)}" for key, value in content.items() if isinstance(value, str) and value]
    for name in ("model", "learning", "privacy", "aggregation"):
        if name in content:
            lines += [
                "",
                f"[{name}]",
                *_entries(_required_keys(getattr(terms, name), content[name]), name, notes or {}),
            ]
    for name, kind in (("owners", OwnerTerms), ("hosts", Host)):
        for place, part in enumerate(content.get(name, ())):
            comments = (notes or {}) if place == 0 else {}
            lines += [
                "",
                f"[[{name}]]",
                *_entries({key: part[key] for key in kind.model_fields if key in part}, name, comments),
            ]
    write_file(path, "\n".join(lines).lstrip("\n") + "\n")


def head_of(path: Path) -> list[str]:
    """Return the comments above everything in a terms file, as `write_terms` takes them."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    end = next((place for place, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return [line[1:].strip() for line in lines[:end]]


def require_expected(terms: Terms, expected: str | None) -> None:
    """Refuse terms whose hash does not begin with these digits; None accepts any."""
    if expected is None:
        return
    if re.fullmatch(f"[0-9a-f]{{{MIN_HASH_DIGITS},64}}", expected) is None:
        raise SettingError(f"--expect: expected the first {MIN_HASH_DIGITS} to 64 digits of the terms' hash")
    if not terms.hash.startswith(expected):
        raise SettingError(
            f"these are terms {terms.hash[:16]}…, and {expected[:16]}… were read: the file changed meanwhile; read it "
            f"again. Nothing was spent"
        )


def _required_keys(section: Section, content: dict[str, Any]) -> dict[str, Any]:
    """Return the keys without a default value, and those always shown."""
    fields = type(section).model_fields
    usual = {key: fields[key].get_default(call_default_factory=True) for key in content}
    return {
        key: value
        for key, value in content.items()
        if key in ALWAYS_WRITTEN_KEYS or getattr(section, key) != usual[key]
    }


def _entries(section: dict[str, Any], name: str, notes: Mapping[str, str]) -> list[str]:
    """Return a line for each key, with its comment behind it, or above a long line."""
    lines = []
    for key, value in section.items():
        line, note = f"{key} = {_value(value)}", notes.get(f"{name}.{key}")
        if note is None:
            lines.append(line)
        elif len(line) + len(note) <= 126:
            lines.append(f"{line:<36}  # {note}")
        else:
            lines += [f"# {note}", line]
    return lines


def _value(value: Any) -> str:
    """Return a TOML value: mostly JSON's form, with inline tables and quoted keys."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_value(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(inner) for inner in value) + "]"
    # TOML knows no surrogates, and wants DEL escaped
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
