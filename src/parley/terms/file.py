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
    "model.target": "the column to predict",
    "model.event": "1: the event happened at that time; 0: the event had not happened by then",
    "model.periods": "ends of the periods into which time is divided",
    "model.exposure": "amount or time over which each count was observed",
    "model.features": "the columns to predict from",
    "model.positive": "the name that counts as 1; every other name counts as 0",
    "model.merged": "columns of names in which capitals and spaces are ignored",
    "model.dates": "columns of dates and their formats; dates and their bounds become days since 1970-01-01",
    "model.coding": "each name of a category is a column of 0 and 1",
    "model.missing": "fill: the public median, with a 0/1 column that marks missing cells; in a column of names, one "
    "more name",
    "model.bounds": "private values are clipped to these bounds; from public knowledge, never from private rows",
    "model.categories": "names that the model distinguishes; from public knowledge, never from private rows",
    "model.centres": "subtracted from each value before scaling",
    "model.scales": "each value is divided by its column's scale",
    "model.public": "a sample without private rows; gives ranges, scales and categories, and judges plans",
    "model.public_sha256": "so that all parties use the same sample",
    "model.preparation": "public bounds, scales and directions, computed once because machines round differently",
    "model.preparation_sha256": "so that all parties use the same public numbers",
    "model.whitening": "public: features uncorrelated on the public sample; public-curvature: equal curvature of the "
    "public cost",
    "model.basis": "bumps around public points, waves or polynomials in place of the columns",
    "model.columns": "bins: numbers cut at public quantiles; hinges: bins joined by lines; trees: leaves of public "
    "trees",
    "model.bins": "largest number of bins of a numeric column",
    "model.crossed": "pairs of columns whose coarser bins are combined, for their interactions",
    "model.trees": "count: number of public trees; leaves: most per tree; smallest: fewest public rows in a leaf; "
    "rate: of growth; refitted: number of trees whose leaves are columns, beside a public margin of the other trees; "
    "0: linear columns beside the margin",
    "model.intercept": "a constant beside the features",
    "model.radius": "every parameter stays within |theta| <= radius",
    "model.holdout": "share of each owner's rows kept for scoring, never for training",
    "model.holdout_seed": "seed that decides by row number which rows are held out",
    "model.holdout_by": "person: a hash of a person's name decides whether all or none of the person's rows are held "
    "out",
    "model.regularisation": "weight of |theta|^2 / 2",
    "learning.algorithm": "how answers become a model; parley plan compares algorithms",
    "learning.horizon": "number of rounds; an owner's budget is spread over all rounds",
    "learning.step": "how far the learner moves per answer",
    "learning.average": "which iterates make the model: the last, the last half, or all",
    "learning.decay": "steps shrink with this power of the round; 0: constant steps",
    "learning.momentum": "share of the last step that is added to the next step",
    "learning.start": "public: training begins at the best fit of the public sample",
    "learning.top_k": "number of coordinates of a released gradient that are sent, those that changed most",
    "learning.staleness": "answers are used as they arrive, if the model took at most this number of steps since the "
    "question",
    "learning.learner": "the party that asks the owners",
    "privacy.mechanism": "laplace: no delta; gaussian: less noise over many rounds, with a delta",
    "privacy.alpha": "index of stable noise, from 1 (Cauchy) to 1.9999; for simulations only",
    "privacy.clip": "largest norm of a record's gradient; limits what one person can change, and sets the noise",
    "privacy.delta": "probability with which the guarantee of epsilon may fail; well below 1/records",
    "privacy.person": "the column that identifies people",
    "privacy.records_per_person": "most rows that count per person; a person's rows are protected together",
    "privacy.score_epsilon": "part of every epsilon for one released score of the finished model",
    "privacy.scale_epsilon": "part of every epsilon for ranges and category names, asked with noise before training",
    "privacy.difference_epsilon": "part of every epsilon for one answer about how much owners differ, asked before "
    "training",
    "privacy.unit": "owner: whole answers are clipped, and the noise hides a whole table, not one person",
    "privacy.noise": "shared: three hosts draw noise that no host knows, for all owners; or two hosts each add a full "
    "noise",
    "privacy.draw": "together: two hosts draw one noise that neither knows; both must follow the protocol",
    "privacy.hosts_may_cheat": "true: three hosts verify each other's computation; one of them may do anything",
    "privacy.check_answers": "true: three hosts leave out an owner whose answer exceeds its bounds",
    "aggregation.rule": "how answers are combined; all rules except the mean tolerate lying owners and cost more noise",
    "aggregation.byzantine": "how many owners may lie",
    "aggregation.spread": "largest distance between honest owners' answers without noise; owners beyond this distance "
    "are named",
    "join.key": "the column that identifies a person in every owner's table",
    "join.epsilon": "part of every epsilon for the number of matches that hosts see",
    "join.delta": "part of delta for the number of matches that hosts see",
    "owners.columns": "columns of this owner's own table; exactly one owner has the target",
    "owners.clip": "largest norm of this owner's part of a row, in units of the columns' bounds",
    "owners.records": "number of rows in the table; public and checked",
    "owners.epsilon": "most that all answers together may reveal about a person; smaller is more private",
    "owners.answers": "most answers that this owner gives; the noise is calibrated for exactly this number",
    "owners.data": "table for runs on one machine; not part of the terms' hash",
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
    for name in ("model", "learning", "privacy", "aggregation", "join"):
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
            f"the file now contains the terms {terms.hash[:16]}…; expected the terms {expected[:16]}…. Review the "
            "changed file. Nothing was spent"
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
