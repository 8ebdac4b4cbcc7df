"""The content of a model file: preparation and trees, as numbers and names; nothing executable."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from parley.data import Preparation
from parley.data.basis import degrees
from parley.data.cut_points import Hinged
from parley.data.forest import ARRAY_PREFIX, LINES_ARRAY, MARGIN_PREFIX, Forest, MarginForest, MarginLines
from parley.data.public_numbers import TOLERANCE
from parley.errors import DataError
from parley.terms.model import read_model
from parley.validate import Floats

FORMAT = "parley-model-1"
FORMAT_WITH_TREES = "parley-model-2"  # of a personal model that has trees: who knows the first format alone refuses it
FORMAT_WITH_WEIGHTS = "parley-model-3"  # whose parameters lie in a file beside it
# Keys of the terms whose outcome the saved numbers are.
OMITTED_MODEL_KEYS = {
    "public",
    "public_sha256",
    "preparation",
    "preparation_sha256",
    "components",
    "whitening",
    "columns",
    "crossed",
    "trees",
}
_ARRAY_FIELDS = ("low", "high", "centre", "scale", "rotation", "component_low", "component_high", "basis")


def format_of(content: Mapping[str, Any]) -> str:
    """Return the format that a file with this content should name."""
    if content.get("weights") is not None:
        return FORMAT_WITH_WEIGHTS
    return FORMAT if content.get("trees") is None else FORMAT_WITH_TREES


def preparation_content(p: Preparation) -> dict[str, Any]:
    """Return the preparation of rows, for a file."""
    kept_out = OMITTED_MODEL_KEYS | ({"bins"} if p.model.columns else set())
    content = {
        "model": p.model.model_dump(mode="json", exclude_none=True, exclude=kept_out),
        "features": list(p.features),
        "categories": {k: list(v) for k, v in p.categories.items()},
        "columns": list(p.labels),
        "fills": dict(p.fills),
        "target_words": p.target_words,
        "target_bounds": [_number(v) for v in p.target_bounds],
        "target_centre": p.target_centre,
        "target_scale": p.target_scale,
        **{name: _rows(getattr(p, name)) for name in _ARRAY_FIELDS},
    }
    if p.forest is not None:
        content["forest"] = forest_content(p.forest)
    return content if p.shares is None else content | {"shares": p.shares.tolist()}


def preparation_of(content: Mapping[str, Any]) -> Preparation:
    """Read the preparation from a file's content."""
    low, high = content["target_bounds"]
    content = {"basis": None, **content}  # earlier files have none
    arrays = {name: None if content[name] is None else array_of(content[name]) for name in _ARRAY_FIELDS}
    preparation = Preparation(
        model=read_model(content["model"]),
        features=tuple(content["features"]),
        categories={k: tuple(v) for k, v in content["categories"].items()},
        target_bounds=(float(low), float(high)),
        target_centre=float(content["target_centre"]),
        target_scale=float(content["target_scale"]),
        fills={k: float(v) for k, v in content.get("fills", {}).items()},  # earlier files have none
        **arrays,  # type: ignore[arg-type]
    )
    _require_degrees(preparation)
    if (trees := content.get("forest")) is None:  # only columns that bend have one
        return preparation
    forest = _forest(trees, len(preparation.labels), preparation.outcomes)
    shares = None if content.get("shares") is None else array_of(content["shares"])
    if shares is not None and (shares.shape != (forest.leaves,) or not (shares >= 0).all()):
        raise ValueError("shares: expected one number of at least 0 for each leaf")
    return replace(preparation, forest=forest, shares=shares)


def _require_degrees(p: Preparation) -> None:
    """Refuse polynomials of other degrees than the model states, up to rounding."""
    if p.model.basis is None or (max_degree := p.model.basis.degree) is None:
        return
    columns = len(p.low) if p.rotation is None else p.rotation.shape[1]
    if p.basis is None or p.basis.shape != (math.comb(columns + max_degree, max_degree) - 1, columns):
        raise ValueError("basis: the number of products does not match the model's degree")
    if not np.abs(p.basis - degrees(columns, max_degree)).max() <= TOLERANCE:
        raise ValueError("basis: the products' degrees do not match the model's degree")


def forest_content(forest: Forest) -> dict[str, Any]:
    """Return the trees, for a file."""
    return {name: array.tolist() for name, array in forest.arrays.items()}


def own_trees_of(content: Mapping[str, Any], preparation: Preparation) -> Forest | None:
    """Read a personal model's trees, if any. Refuse invalid trees, and trees in a model marked as released."""
    if (trees := content.get("trees")) is None:
        return None
    predicts = preparation.model.predicts
    if predicts not in ("number", "two classes", "classes") or content["released"] is not False:
        raise DataError("an owner's own trees are allowed only in a personal model that predicts a number or classes")
    return _forest(trees, preparation.unturned.width, preparation.outcomes)


def array_of(values: Any) -> Floats:
    """Read numbers of a file."""
    return np.array(values, dtype=object).astype(np.float64)


def _forest(content: Mapping[str, Any], columns: int, outcomes: int) -> Forest:
    arrays = {name: array_of(values) for name, values in content.items()}
    if any(name.startswith(MARGIN_PREFIX) for name in arrays):
        return (MarginLines if LINES_ARRAY in arrays else MarginForest).from_arrays(arrays, columns, outcomes)
    return (Hinged if f"{ARRAY_PREFIX}knots" in arrays else Forest).from_arrays(arrays, columns, outcomes)


def _number(value: float) -> float | str:
    return float(value) if np.isfinite(value) else str(float(value))  # JSON has no infinity; "inf" reads back as one


def _rows(array: Floats | None) -> Any:
    if array is None:
        return None
    return [_number(v) for v in array] if array.ndim == 1 else [_rows(row) for row in array]
