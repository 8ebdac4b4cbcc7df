"""The keys and checks of terms for items learned from ratings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from parley.errors import TermsError
from parley.terms import Model
from parley.terms.keys import Count, Name
from parley.terms.rules import AlgorithmRules
from parley.terms.sections import CheckableTerms, Privacy
from parley.validate import printable

DEFAULT_ROUNDS = 20
DEFAULT_RADIUS = 2.0  # within which items' factors are looked for, ratings being from -2 to 2
LARGEST_ITEM = 1e6  # of an item's factors: far beyond any use, and squares of it are far from overflowing
MAX_ANSWER_NUMBERS = 2_000_000  # of one answer: what a message holds
MAX_FILE_CHARACTERS = 10**7  # characters of a file of items
EXPECTED_ITEMS = "the number of items (with the names 1, 2, ...), their names, or a file with one name per line"
UNUSED_KEYS = (
    "features",
    "class_weight",
    "categories",
    "transforms",
    "dates",
    "merged",
    "centres",
    "scales",
    "public",
    "preparation",
    "components",
    "whitening",
    "basis",
    "positive",
    "intercept",
    "coding",
    "missing",
)


class RatingsModel(Model):
    """The columns, range and items of ratings, without the keys of table columns."""

    user: Name
    item: Name
    items: Count | tuple[Name, ...]  # the public list
    factors: Annotated[int, Field(ge=1, le=1000, strict=True)]
    seed: Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)]

    expected: ClassVar[Mapping[str, str]] = {
        "user": "the column that says who rated",
        "item": "the column that says what was rated",
        "items": EXPECTED_ITEMS,
    }

    @classmethod
    def usual(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Return the content with defaults: four factors within a box of 2, and seed 0."""
        usual = {"factors": 4, "radius": DEFAULT_RADIUS, "seed": 0}
        return {**content, **{key: value for key, value in usual.items() if content.get(key) is None}}

    @property
    def item_count(self) -> int:
        """The number of items in the public list."""
        return len(self.items) if isinstance(self.items, tuple) else self.items

    @property
    def item_names(self) -> tuple[str, ...]:
        """The names of the items, in their order."""
        return self.items if isinstance(self.items, tuple) else tuple(str(place + 1) for place in range(self.items))

    def check(self) -> None:
        """Refuse ratings without a range, too many items for a message, and keys without a use."""
        if self.holdout_by is not None:
            raise ValueError("holdout_by|not allowed for ratings, because some ratings of every user are held out")
        if self.holdout_seed is not None:
            raise ValueError("holdout_seed|not allowed for ratings, because `seed` decides which ratings are held out")
        self.refuse(
            UNUSED_KEYS,
            "for ratings, whose columns are user, item and target",
            (False,),
        )
        if len({self.user, self.item, self.target}) < 3:
            raise ValueError("user|expected three different columns as user, item and target")
        if self.bounds.keys() != {self.target}:
            raise ValueError(
                f"bounds.{self.target}|expected [low, high] of the ratings and no other bounds; ratings outside are "
                "clipped"
            )
        if isinstance(self.items, tuple) and (not self.items or len(set(self.items)) < len(self.items)):
            raise ValueError(f"items|the list is empty or repeats a name; expected {EXPECTED_ITEMS}")
        numbers = self.item_count * (self.factors + 2)
        if numbers > MAX_ANSWER_NUMBERS:
            raise ValueError(
                f"items|an answer would contain items x (factors + 2) = {numbers:,} numbers; expected at most "
                f"{MAX_ANSWER_NUMBERS:,}"
            )
        if self.radius is not None and self.radius > LARGEST_ITEM:
            raise ValueError(f"radius|expected at most {LARGEST_ITEM:g}, the largest norm of an item's factors")
        if self.regularisation is not None and not self.regularisation > 0:
            raise ValueError(
                "regularisation|expected a number above 0; otherwise a user's few ratings may not determine the user's "
                "factors"
            )

    def check_terms(self, terms: CheckableTerms) -> None:
        """Refuse settings that have no meaning for ratings."""
        learning, privacy = terms.learning, terms.privacy
        if learning.step != "auto" or learning.start is not None:
            raise ValueError(
                "learning.step|step and start are not allowed for ratings, because the noise determines the size "
                "of steps"
            )
        for key in ("score_epsilon", "scale_epsilon", "difference_epsilon", "clip_norm"):
            if getattr(privacy, key) is not None:
                raise ValueError(f"privacy.{key}|not allowed for ratings")
        if privacy.person not in (None, self.user):
            raise ValueError(f"privacy.person|expected {self.user!r}, the column of users; or remove the key")
        some = (
            learning.participation is not None
            or learning.straggler == "skip"
            or any(owner.stride is not None for owner in terms.owners)
        )
        if terms.noise.summed and some:
            raise ValueError(
                "privacy.noise|expected 'each-owner' with strides, participation or skip, because a sum does not show "
                "whose answers it contains"
            )
        if not isinstance(privacy, RatingNoisePrivacy):
            if privacy.clip is None:
                raise ValueError(
                    "privacy.clip|expected a number, because the clip scales down a user's whole contribution"
                )
            return
        if privacy.clip is not None:
            setting = f"mechanism = {privacy.mechanism!r}, which changes the ratings themselves"
            raise ValueError(f"privacy.clip|not allowed with {setting}; remove the key, because nothing is clipped")
        if terms.noise.summed or privacy.shared_records > 1:
            raise ValueError(
                "privacy.noise|expected 'each-owner' and no shared_records, because the mechanism changes the ratings"
            )
        if privacy.mechanism == "hide" and privacy.rating_scale is not None:
            raise ValueError("privacy.rating_scale|not allowed with mechanism = 'hide', which has neither noise nor ε")
        if privacy.person is not None and privacy.rating_scale == "published":
            raise ValueError(
                "privacy.person|not allowed with rating_scale = 'published', whose guarantee is known only for single "
                "ratings"
            )

    @classmethod
    def read(cls, content: dict[str, Any], folder: Path) -> dict[str, Any]:
        """Return the content with the file of items read, one name per line."""
        model = content.get("model")
        if not isinstance(model, dict) or not isinstance(model.get("items"), str):
            return content
        try:
            with (folder / model["items"]).open(encoding="utf-8") as lines:
                text = lines.read(MAX_FILE_CHARACTERS + 1)
        except (OSError, ValueError):
            where = printable(str(folder / model["items"]))
            raise TermsError(f"model.items: {where}: no such text file; expected {EXPECTED_ITEMS}") from None
        if len(text) > MAX_FILE_CHARACTERS:
            raise TermsError(f"model.items: expected a file of at most {MAX_FILE_CHARACTERS:,} characters")
        return {**content, "model": {**model, "items": [name for line in text.splitlines() if (name := line.strip())]}}


class RatingNoisePrivacy(Privacy):
    """Noise on ratings themselves: nothing is clipped."""

    rating_scale: Literal["sound", "published"] | None = None  # None: sound


class ItemFactorsRules(AlgorithmRules):
    asks: ClassVar[str] = "item-factors"
    rounds: ClassVar[int] = DEFAULT_ROUNDS


ALGORITHM = ItemFactorsRules()
