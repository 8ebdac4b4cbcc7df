"""The keys and checks of terms for counts."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

from parley.terms import Model
from parley.terms.rules import OneRelease
from parley.terms.sections import CheckableTerms

BINS = 10
MOST_CELLS = 100_000
MOST_RECORDS = 2**46  # of all owners: shares tell counts apart
RANDOMISED_RESPONSE = "randomised-response"
UNUSED_KEYS = (
    "features",
    "regularisation",
    "class_weight",
    "radius",
    "transforms",
    "dates",
    "merged",
    "centres",
    "scales",
    "positive",
    "public",
    "preparation",
    "components",
    "whitening",
    "basis",
    "columns",
    "intercept",
)


class CellsModel(Model):
    """One column whose listed names, or steps within bounds, are counted."""

    cuts_columns: ClassVar[bool] = True

    @classmethod
    def usual(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Return the content with ten steps as default for a histogram within bounds."""
        bounds = content.get("bounds")
        stepped = isinstance(bounds, dict) and content.get("target") in bounds and content.get("bins") is None
        return {**content, "bins": BINS} if stepped and content.get("kind") == "histogram" else content

    def check(self) -> None:
        """Refuse a column without declared places, and keys that counting does not use."""
        self.refuse(UNUSED_KEYS, f"with kind = {self.kind!r}, which counts rows and learns nothing")
        self.refuse(["coding", "missing"], f"with kind = {self.kind!r}, which counts every row")
        if self.holdout > 0:
            raise ValueError(f"holdout|not allowed with kind = {self.kind!r}, which counts every row")
        for column in (*self.bounds, *self.categories):
            if column != self.target:
                raise ValueError(f"bounds.{column}|expected only the counted column, {self.target!r}, and no other")
        if (self.target in self.bounds) is (self.target in self.categories):
            raise ValueError(
                f"categories.{self.target}|list the names to count, or give [low, high] in model.bounds.{self.target}, "
                "but not both. The counted values must not depend on private rows"
            )
        if self.bins is not None and (self.kind == "count" or self.target in self.categories):
            raise ValueError("bins|allowed only for a histogram of numbers within bounds")
        if self.target in self.bounds and len(set(ends := step_ends(self))) < len(ends):
            raise ValueError("bins|some bins contain no number; use fewer bins or wider bounds")
        if len(self.categories.get(self.target, ())) > MOST_CELLS:
            raise ValueError(f"categories.{self.target}|expected at most {MOST_CELLS:,} names")

    def check_terms(self, terms: CheckableTerms) -> None:
        """Refuse settings that have no meaning, or no proof, for counts."""
        privacy = terms.privacy
        if privacy.mechanism == "laplace":
            raise ValueError(
                "privacy.mechanism|expected 'geometric' (Laplace noise on whole numbers), 'gaussian' or "
                f"{RANDOMISED_RESPONSE!r} for counts"
            )
        if privacy.mechanism == RANDOMISED_RESPONSE and terms.noise.summed:
            raise ValueError(
                f"privacy.noise|expected 'each-owner' with {RANDOMISED_RESPONSE!r}, because each record is randomised "
                "separately"
            )
        for key in ("clip", "clip_norm", "score_epsilon", "scale_epsilon", "difference_epsilon"):
            if getattr(privacy, key) is not None:
                raise ValueError(f"privacy.{key}|not allowed for counts, which need neither a clip nor a model")
        if sum(owner.records for owner in terms.owners) > MOST_RECORDS:
            raise ValueError(f"owners.records|expected at most {MOST_RECORDS:,} records in all")


class CountRules(OneRelease):
    asks: ClassVar[str] = "counts"


ALGORITHM = CountRules()


def cell_names(model: Model) -> tuple[str, ...]:
    """Return the name of each counted cell; the last of a histogram holds all other records.

    >>> cell_names(CellsModel(kind="histogram", target="age", bounds={"age": (0, 40)}, bins=2))
    ('0 to 20', '20 to 40', 'elsewhere')
    """
    if model.kind == "count":
        return ("counted",)
    if model.target in model.categories:
        return (*model.categories[model.target], elsewhere(model))
    return (*(f"{a} to {b}" for a, b in pairwise(_written(step_ends(model)))), elsewhere(model))


def elsewhere(model: Model) -> str:
    """Return an unlisted name for the cell of all other records.

    >>> elsewhere(CellsModel(kind="histogram", target="g", categories={"g": ("here", "elsewhere")}))
    'elsewhere (not listed)'
    """
    name = "elsewhere"
    while name in model.categories.get(model.target, ()):
        name += " (not listed)"
    return name


def step_ends(model: Model) -> tuple[float, ...]:
    """Return the ends of all steps within the bounds, each the float nearest to the true end; a count has two.

    >>> step_ends(CellsModel(kind="histogram", target="y", bounds={"y": (0.1, 0.4)}, bins=3))
    (0.1, 0.2, 0.3, 0.4)
    """
    low, high = (Fraction(str(bound)) for bound in model.bounds[model.target])
    steps = (model.bins or BINS) if model.kind == "histogram" else 1
    return tuple(float(low + (high - low) * place / steps) for place in range(steps + 1))


def _written(ends: Sequence[float]) -> list[str]:
    """Write numbers with the fewest digits, at least six, that keep them distinct."""
    return next(said for digits in range(6, 18) if len(set(said := [f"{end:.{digits}g}" for end in ends])) == len(ends))
