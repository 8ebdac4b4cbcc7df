"""The section `[model]`: what is learned, from which columns, and how they are read. A kind with keys of its own has a
subclass of `Model`, named in its catalogue entry."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from parley.terms.catalogue import MODELS, PREDICTION, Predicts
from parley.terms.keys import (
    NUMBER_RANGE_TEXT,
    Basis,
    Coding,
    Count,
    DateFormat,
    Interval,
    Missing,
    Name,
    NonNegative,
    Positive,
    SafeNumber,
    Section,
    Transform,
    Trees,
    domain,
    find_by_name,
    import_by_name,
    is_defined,
    one_of,
    quoted_choices,
)
from parley.validate import SMALLEST, in_range

if TYPE_CHECKING:
    from parley.terms.sections import CheckableTerms


BINNED_COLUMNS = ("bins", "hinges")  # columns that `bins` cuts
# columns, the key that says more, what it usually is
IMPLIED_COLUMN_KEYS: Mapping[str | None, tuple[str, Any]] = {
    "bins": ("bins", 20),
    "hinges": ("bins", 20),
    "trees": ("trees", {}),
}
KINDS_WITH_GROWN_TREES = ("linear-regression", "logistic-regression", "softmax-regression")  # what trees are grown for

# values of keys that say nothing, whatever the key; and of some keys
EMPTY_VALUES: Collection[Any] = (None, {}, ())
DEFAULT_VALUES: Mapping[str, Any] = {"coding": "integer", "missing": "refuse"}


class Model(Section):
    """The `[model]` keys that all kinds share. Refusals are ValueErrors "key|expected what"."""

    expected: ClassVar[Mapping[str, str]] = {}  # what is said of an own key that is missing or of another type
    cuts_columns: ClassVar[bool] = False  # whether `bins` cuts columns whatever they become

    kind: Annotated[str, Field(strict=True), one_of(MODELS)]
    target: Name
    features: tuple[Name, ...] | None = None
    regularisation: NonNegative | None = None
    class_weight: dict[Name, Positive] = Field(default_factory=dict)
    radius: Positive | None = None
    bounds: dict[Name, Interval] = Field(default_factory=dict)
    categories: dict[Name, tuple[Name, ...]] = Field(default_factory=dict)
    merged: tuple[Name, ...] = ()  # columns of names in which capitals and spaces do not count
    dates: dict[Name, DateFormat] = Field(default_factory=dict)  # columns that are days since 1970-01-01
    coding: Coding = "integer"
    missing: Missing = "refuse"
    transforms: dict[Name, Transform] = Field(default_factory=dict)
    positive: Name | None = None
    centres: dict[Name, SafeNumber] = Field(default_factory=dict)
    scales: dict[Name, Positive] = Field(default_factory=dict)
    public: str | None = None
    public_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    preparation: str | None = None
    preparation_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    components: Count | None = None
    whitening: Literal["public", "public-curvature"] | None = None
    basis: Basis | None = None
    columns: Literal["bins", "hinges", "trees"] | None = None
    bins: Annotated[int, Field(ge=2, le=256, strict=True)] | None = (
        None  # that a column of numbers is cut into, at most
    )
    crossed: Annotated[tuple[tuple[Name, Name], ...], Field(min_length=1, max_length=100)] | None = (
        None  # pairs, binned
    )
    trees: Trees | None = None
    holdout: Annotated[float, Field(ge=0, lt=1, strict=True)] = 0.0
    holdout_seed: Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)] | None = None
    holdout_by: Literal["person"] | None = None  # None: by place
    intercept: Annotated[bool, Field(strict=True)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        usual = cls.usual(content)
        meant = IMPLIED_COLUMN_KEYS.get(usual.get("columns") if isinstance(usual.get("columns"), str) else None)
        return usual if meant is None or usual.get(meant[0]) is not None else {**usual, meant[0]: meant[1]}

    @classmethod
    def usual(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Return the section with implied keys filled in."""
        return content

    @classmethod
    def read(cls, content: dict[str, Any], folder: Path) -> dict[str, Any]:
        """Return the content of a terms file in this folder, with the files that the section names read in."""
        return content

    @classmethod
    def own_keys(cls) -> list[str]:
        """Return the keys that other kinds do not have."""
        return [key for key in cls.model_fields if key not in Model.model_fields]

    @classmethod
    def expect(cls, model: "Model") -> Self:
        """Return a section as one of this class; a TypeError otherwise."""
        if not isinstance(model, cls):
            raise TypeError(f"kind = {model.kind!r}: expected a section {cls.__name__}, found {type(model).__name__}")
        return model

    def check(self) -> None:
        """Refuse a section that is inconsistent by itself."""

    def check_terms(self, terms: "CheckableTerms") -> None:
        """Refuse terms whose other sections do not fit this kind."""

    def refuse(self, keys: Iterable[str], why: str, besides: Collection[Any] = ()) -> None:
        """Refuse keys that this kind does not use, unless their values say nothing or are in `besides`."""
        for key in keys:
            if getattr(self, key) not in (*EMPTY_VALUES, DEFAULT_VALUES.get(key), *besides):
                raise ValueError(f"{key}|not allowed {why}")

    @property
    def predicts(self) -> Predicts:
        """The type of target."""
        return MODELS[self.kind].predicts

    @property
    def classifies(self) -> bool:
        return self.predicts in ("two classes", "classes")

    @property
    def outcome_columns(self) -> tuple[str, ...]:
        """The columns of a record's outcome: the target first."""
        return (self.target,)

    @property
    def smooth(self) -> bool:
        """Whether the slope of the loss has no jumps."""
        return MODELS[self.kind].smooth

    @property
    def has_intercept(self) -> bool:
        """Whether a constant 1 is appended. Default: yes for classes and counts, no for numbers (W section II)."""
        return self.predicts not in ("number", "survival") if self.intercept is None else self.intercept

    @property
    def largest_weight(self) -> float:
        """The largest weight of one record's loss."""
        weights = list(self.class_weight.values())
        every_class = self.predicts == "two classes" and len(weights) == 2
        return max(weights if every_class else [1.0, *weights])

    @property
    def penalty(self) -> float:
        """Weight of g1 = 0.5 |theta|^2. Default: 1 for the SVM as in W, else 0."""
        return MODELS[self.kind].penalty if self.regularisation is None else self.regularisation

    def fills(self, column: str) -> bool:
        """Whether missing cells of this column are filled instead of refused; the target's never are."""
        if column in self.outcome_columns:
            return False
        return self.missing == "fill" if isinstance(self.missing, str) else column in self.missing

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not isinstance(self, section_of(self.kind)):
            raise ValueError(f"kind|expected a {section_of(self.kind).__name__}; create the section with read_model")
        self.check()
        self._apart_from_target()
        if self.holdout_seed is not None and not self.holdout:
            raise ValueError("holdout_seed|allowed only with holdout, because the seed decides which rows are held out")
        if self.holdout_by is not None and not self.holdout:
            raise ValueError("holdout_by|allowed only with holdout, which sets the share of people to hold out")
        if self.features is not None:
            if not self.features:
                raise ValueError("features|expected at least one column; remove the key to use every numeric column")
            if len(set(self.features)) < len(self.features):
                raise ValueError("features|expected each column once")
            if self.target in self.features:
                raise ValueError(f"features|expected columns other than the target {self.target!r}")
        for column, (low, high) in self.bounds.items():
            if not low < high:
                raise ValueError(f"bounds.{column}|expected [low, high] with low < high")
            if not (in_range(low) and in_range(high) and high - low >= SMALLEST):
                raise ValueError(
                    f"bounds.{column} = [{low}, {high}]|expected ends at least {SMALLEST:g} apart, each of them "
                    f"0 or with an absolute value {NUMBER_RANGE_TEXT}"
                )
        for column, names in self.categories.items():
            if len(set(names)) < max(len(names), 1):
                raise ValueError(f"categories.{column}|expected at least one name, and each name only once")
        if self.class_weight and not self.classifies:
            raise ValueError("class_weight|allowed only for a model that predicts classes")
        if self.predicts == "two classes" and not {*self.class_weight} <= {"0", "1"}:
            raise ValueError("class_weight|expected the classes '0' and '1' as its keys")
        if self.components is not None and self.public is None:
            raise ValueError("components|needs a `public` sample, because PCA never reads private data")
        if self.preparation is not None and self.public is None and self.basis is None:
            raise ValueError(
                "preparation|needs a `public` sample or a `basis`; otherwise there are no constants to freeze"
            )
        self._can_read()
        self._can_scale()
        self._check_column_transformations()
        if self.basis is not None and self.basis.kind == "polynomial" and (self.missing != "refuse" or self._one_hot):
            raise ValueError(
                "basis.kind|'polynomial' allows neither filled cells nor coding = 'one-hot', because both give "
                "columns of 0 and 1, whose powers are the same columns"
            )
        if self.whitening is not None and (self.public is None or self.components is not None):
            raise ValueError(
                "whitening|needs a `public` sample, and allows no `components`, because the sample's moments or "
                "curvature whiten the columns"
            )
        if self.whitening == "public-curvature" and not self.smooth:
            raise ValueError(
                f"whitening|expected 'public' with kind = {self.kind!r}, because 'public-curvature' needs a smooth loss"
            )
        return self

    def _apart_from_target(self) -> None:
        """Refuse columns that belong to the target and are also used elsewhere."""
        columns = self.outcome_columns
        if len({*columns}) < len(columns):
            raise ValueError(f"{self.own_keys()[0]}|expected a column other than the target {self.target!r}")
        for column in columns[1:]:
            for key in ("features", "categories", "centres", "scales", "transforms", "dates", "missing"):
                about = getattr(self, key)
                if not isinstance(about, str) and column in (about or ()):
                    raise ValueError(f"{key}.{column}|expected a feature, because {column!r} belongs to the target")

    @property
    def _one_hot(self) -> bool:
        return self.coding == "one-hot" and any(column != self.target for column in self.categories)

    def _check_column_transformations(self) -> None:
        """Refuse bins and trees with other transformations of columns, and trees without rows to grow on."""
        if self.trees is not None and self.columns != "trees":
            raise ValueError("trees|allowed only with columns = 'trees'")
        if self.bins is not None and self.columns not in BINNED_COLUMNS and not self.cuts_columns:
            raise ValueError(
                "bins|allowed only with columns = 'bins' or 'hinges', with boosted trees or with a histogram"
            )
        if self.trees is not None and self.trees.refitted is not None and self.radius is not None:
            raise ValueError(
                "radius|not allowed with trees.refitted, because a radius would also limit the weight of the "
                "public margin"
            )
        self._can_cross()
        if self.columns is None:
            return
        if MODELS[self.kind].task != PREDICTION:
            raise ValueError(f"columns|not allowed with kind = {self.kind!r}")
        if self.components is not None or self.whitening is not None or self.basis is not None:
            raise ValueError(
                f"columns|{self.columns!r} allows neither components, whitening nor a basis, because the norm of a "
                "record is already known"
            )
        if self.columns == "trees" and self.public is None:
            raise ValueError(
                "columns|'trees' needs a `public` sample, because private rows must not decide where a tree splits. "
                "Without a sample, use 'bins' and declare bounds"
            )
        if self.columns == "trees" and self.kind not in KINDS_WITH_GROWN_TREES:
            raise ValueError(
                f"columns|'trees' is not available with kind = {self.kind!r}, only with "
                f"{quoted_choices(KINDS_WITH_GROWN_TREES)}; use 'bins' or 'hinges', or remove the key"
            )

    def _can_cross(self) -> None:
        """Refuse pairs of columns that are not cut, not distinct, or repeated."""
        if self.crossed is None:
            return
        if self.columns not in BINNED_COLUMNS:
            raise ValueError("crossed|allowed only with columns = 'bins' or 'hinges'")
        if any(a == b for a, b in self.crossed) or len({frozenset(pair) for pair in self.crossed}) < len(self.crossed):
            raise ValueError("crossed|expected pairs of two different columns, each pair once")
        if self.features is not None and not {column for pair in self.crossed for column in pair} <= {*self.features}:
            raise ValueError("crossed|expected pairs of features")

    def _can_scale(self) -> None:
        """Refuse centres and scales that a public sample gives, and those of columns without a scale."""
        for key, given in (("centres", self.centres), ("scales", self.scales)):
            if given and self.public is not None:
                raise ValueError(
                    f"{key}|not allowed with a `public` sample, because the sample determines how columns are centred "
                    "and scaled"
                )
            for column in given:
                if column in self.categories and (self.coding == "one-hot" or self.classifies):
                    raise ValueError(f"{key}.{column}|expected a column of numbers, not of categories")
                if column == self.target and (self.classifies or not self.has_intercept):
                    raise ValueError(
                        f"{key}.{column}|expected a feature, or the target of a regression with an intercept"
                    )

    def _can_read(self) -> None:
        if isinstance(self.missing, dict) and self.target in self.missing:
            raise ValueError(
                f"missing.{self.target}|not allowed for the target, because a record without a target contributes "
                "nothing"
            )
        for column in self.merged:
            if column in (*self.outcome_columns, *self.bounds, *self.dates):
                raise ValueError(f"merged|expected categorical features; found {column!r}")
        for column in self.dates:
            if column in (*self.outcome_columns, *self.categories):
                raise ValueError(
                    f"dates.{column}|expected a feature without listed names, because a date is a number of days"
                )
        for column, transform in self.transforms.items():
            if column == self.target:
                raise ValueError(
                    f"transforms.{column}|expected a feature, because predictions are in the target's own units"
                )
            if column in self.categories:
                raise ValueError(f"transforms.{column}|expected a column of numbers, not of categories")
            if column in self.bounds and not is_defined(transform, self.bounds[column][0]):
                raise ValueError(
                    f"bounds.{column}|expected a lower bound {domain(transform)} with transforms.{column} = "
                    f"{transform!r}"
                )
        for column in self.categories:
            if self.coding == "one-hot" and column in self.bounds and column != self.target:
                raise ValueError(
                    f"bounds.{column}|not allowed with coding = 'one-hot', because each category is a column of 0 and 1"
                )
        if self.positive is None:
            return
        if self.predicts != "two classes":
            raise ValueError(
                "positive|allowed only with a model of two classes, because the key names the class that counts as 1"
            )
        classes = self.categories.get(self.target)
        if classes is not None and (len(classes) != 2 or self.positive not in classes):
            raise ValueError(
                f"categories.{self.target}|expected two names, one of them the name in model.positive; "
                "or remove the key"
            )


def section_of(kind: Any) -> type[Model]:
    """Return the section class of a kind; the shared one for unknown names."""
    facts = find_by_name(MODELS, kind)
    return Model if facts is None or facts.section is None else import_by_name(facts.section)


def read_model(content: Any) -> Any:
    """Read `[model]` by its kind; a None counts as a missing key."""
    if not isinstance(content, dict):
        return content
    return section_of(content.get("kind")).model_validate({k: each for k, each in content.items() if each is not None})


def kinds_with(key: str) -> list[str]:
    """Return the kinds that have this `[model]` key of their own."""
    return [kind for kind in MODELS if key in section_of(kind).own_keys()]


# Keys that do not change how columns become features.
KEYS_NOT_PREPARING_COLUMNS = {"regularisation", "class_weight", "radius", "holdout", "holdout_seed", "holdout_by"}
KEYS_NOT_PREPARING_COLUMNS |= {"public", "preparation", "preparation_sha256"}


def prepares_otherwise(model: Model, update: Mapping[str, Any]) -> bool:
    """Whether these changes prepare columns differently; file locations do not count."""
    if "public" in update and (update["public"] is None) is not (model.public is None):
        return True
    return any(
        key not in KEYS_NOT_PREPARING_COLUMNS and _plain(getattr(model, key, value)) != _plain(value)
        for key, value in update.items()
    )


def _plain(value: Any) -> Any:
    """Return a key's value as a file has it."""
    if isinstance(value, Section):
        return _plain(value.model_dump())
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
