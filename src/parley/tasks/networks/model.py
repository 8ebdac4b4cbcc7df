"""Networks as fitted models: predict from raw columns, saved as JSON with weights beside it, nothing executable."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from parley.data import Preparation
from parley.durable import replacing
from parley.errors import ModelError
from parley.learning.outcome.model import JointModel, JointRegressor, JointSoftmaxClassifier
from parley.learning.outcome.model_file import WITH_WEIGHTS, preparation_content
from parley.report.extras import extras
from parley.tasks.networks.objective import architecture_of
from parley.tasks.networks.prepared_rows import float32_rows
from parley.validate import Floats


class NetworkModel(JointModel):
    """What regressors and classifiers of networks share. theta_ has all weights; there is no `coef_`."""

    def _take_coefficients(self, split: int) -> None:
        """None: weights of layers are no coefficients of columns."""

    def _scores(self, X: Any) -> Floats:
        from parley.tasks.networks.modules import module_scores, set_parameters

        self._require_theta()
        module = architecture_of(self.preparation_).module()
        set_parameters(module, self.theta_)
        said = module_scores(module, float32_rows(self._rows(X)))
        return said if self.preparation_.model.classifies else said[:, 0]

    def save(self, path: str | Path) -> None:
        """Write the weights as safetensors beside a JSON file that names them: numbers and names."""
        with extras():
            from safetensors.numpy import save

        self._require_theta()
        path = Path(path)
        weights = path.with_suffix(".safetensors")
        if weights == path:
            raise ModelError(f"{path}: expected another ending than .safetensors, which the weights beside it have")
        p, shapes = self.preparation_, architecture_of(self.preparation_).shapes
        pieces = np.split(float32_rows(self.theta_), np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1])
        blob = save({n: piece.reshape(shape) for (n, shape), piece in zip(shapes.items(), pieces, strict=True)})
        content = {
            "format": WITH_WEIGHTS,
            "kind": p.model.kind,
            "terms_hash": self.terms_hash_,
            "released": self.released_,
            "classes": self.classes_.tolist() if p.model.classifies else None,
            "weights": {"file": weights.name, "sha256": hashlib.sha256(blob).hexdigest()},
            **preparation_content(p),
        }
        with replacing(path) as numbers, replacing(weights) as file:  # an earlier pair stays if either finds no room
            numbers.write((json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
            numbers.flush()
            file.write(blob)


class NetworkRegressor(NetworkModel, JointRegressor):
    """A network that predicts a number."""


class NetworkClassifier(NetworkModel, JointSoftmaxClassifier):
    """A network that predicts one of several classes, with probabilities."""


def network_model(preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> JointModel:
    """The fitted model of these weights [P]."""
    kind = NetworkClassifier if preparation.model.classifies else NetworkRegressor
    return kind()._take(preparation, theta, terms_hash, released)


def stored_weights(content: Mapping[str, Any], preparation: Preparation, path: Path) -> Floats:
    """The weights [P] that a model file at this path names, if they are those it was saved with (ModelError)."""
    from safetensors.numpy import load

    named, shapes = content["weights"], architecture_of(preparation).shapes
    file = path.parent / Path(str(named["file"])).name
    try:
        blob = file.read_bytes()
    except OSError as error:
        raise ModelError(f"{file}: the weights of {path.name} cannot be read: {error.strerror}") from None
    if hashlib.sha256(blob).hexdigest() != named["sha256"]:
        raise ModelError(f"{file}: not the weights that {path.name} was saved with")
    found = load(blob)
    if {name: array.shape for name, array in found.items()} != shapes:
        raise ModelError(f"{file}: its tensors are not those of the network that {path.name} names")
    return np.concatenate([found[name].astype(np.float64).reshape(-1) for name in shapes])
