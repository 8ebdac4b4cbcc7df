"""The keys and checks of terms for boosted trees."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from parley.terms import Model, Terms
from parley.terms.rules import AlgorithmRules
from parley.terms.sections import CheckableTerms

BINS, DEPTH, TREES = 48, 1, 100
DEFAULT_ERROR_LIMIT_SHARE = 0.25  # of the target's range: what an error counts at most where the terms have no clip
MAX_NAMES = 1000  # of a column: the learner weighs all its leaves against each other
MOST_RECORDS = 2**33  # of an owner, whose sums are exact then
UNUSED_KEYS = (
    "regularisation",
    "class_weight",
    "radius",
    "centres",
    "scales",
    "public",
    "preparation",
    "components",
    "whitening",
    "basis",
    "intercept",
)


class TreesModel(Model):
    """Trees that split columns at declared places: equal steps within bounds, or listed names."""

    depth: Annotated[int, Field(ge=1, le=2, strict=True)]

    cuts_columns: ClassVar[bool] = True

    @classmethod
    def usual(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Return the content with defaults: additive trees of 48 steps over all columns with bounds or names."""
        declared_keys = {key: value for key, value in content.items() if value is not None}
        usual: dict[str, Any] = {"bins": BINS, "depth": DEPTH}
        declared = [declared_keys.get("bounds", {}), declared_keys.get("categories", {})]
        if all(isinstance(each, dict) for each in declared):
            usual["features"] = [
                c for c in dict.fromkeys([*declared[0], *declared[1]]) if c != declared_keys.get("target")
            ]
        return {**usual, **declared_keys}

    def check(self) -> None:
        """Refuse columns without declared split places, and keys that trees do not use."""
        self.refuse(UNUSED_KEYS, "for boosted trees, whose leaves do not depend on the units of columns")
        self.refuse(["coding"], "for boosted trees, which have a leaf for every listed name")
        for column in self.features or ():
            if (column in self.bounds) is (column in self.categories):
                raise ValueError(
                    f"bounds.{column}|expected [low, high], or the names in model.categories.{column}, not both, "
                    "because tree splits must not depend on private rows"
                )
        for column, names in self.categories.items():
            if column != self.target and len(names) > MAX_NAMES:
                raise ValueError(f"categories.{column}|expected at most {MAX_NAMES:,} names for boosted trees")
        if not self.classifies and (self.target not in self.bounds or self.target in self.categories):
            raise ValueError(
                f"bounds.{self.target}|expected [low, high] of the target; values outside are clipped, and the range "
                "sets the default of privacy.clip"
            )
        if self.depth == 2 and len(self.features or ()) < 2:
            raise ValueError("depth|expected 1, because a tree of depth 2 needs two features")

    def check_terms(self, terms: CheckableTerms) -> None:
        """Refuse settings that have no meaning, or no proof yet, for boosted trees."""
        learning, privacy = terms.learning, terms.privacy
        if learning.step != "auto" or learning.start is not None:
            raise ValueError(
                "learning.step|step and start are not allowed for trees, because the noise determines the leaf values"
            )
        for key in ("score_epsilon", "scale_epsilon", "difference_epsilon", "clip_norm"):
            if getattr(privacy, key) is not None:
                raise ValueError(f"privacy.{key}|not allowed for boosted trees")
        if self.classifies and privacy.clip is not None:
            raise ValueError(
                "privacy.clip|not allowed for boosted-classification, because errors are at most 1 in absolute value"
            )
        min_trees = 1 + len(self.features or ())
        if learning.horizon < min_trees:
            raise ValueError(
                f"learning.horizon|expected at least {min_trees} trees, one for the common level and one for each "
                "column"
            )
        some = learning.participation is not None or any(owner.stride is not None for owner in terms.owners)
        if terms.noise.summed and (some or learning.straggler == "skip"):
            raise ValueError(
                "privacy.noise|expected 'each-owner' with strides, participation or skip, because the noise in a sum "
                "over only some owners is not known"
            )
        for owner in terms.owners:
            if owner.records > MOST_RECORDS:
                raise ValueError(f"owners.records|expected at most {MOST_RECORDS:,} records for boosted trees")


class BoostedTreesRules(AlgorithmRules):
    """Every round asks for one tree, so `horizon` is the number of trees."""

    asks: ClassVar[str] = "leaf-sums"
    rounds: ClassVar[int] = TREES
    clips_gradients: ClassVar[bool] = False


ALGORITHM = BoostedTreesRules()


def error_limit(terms: Terms) -> float:
    """Return the error limit in the target's units: the clip, else a quarter of its range; 1 for classes."""
    if terms.model.classifies:
        return 1.0
    low, high = terms.model.bounds[terms.model.target]
    return DEFAULT_ERROR_LIMIT_SHARE * (high - low) if terms.privacy.clip is None else terms.privacy.clip
