"""Networks as fitted models: prediction from raw columns, files without executable content, and quality.

Formal guarantee: none for what is measured. It is computed from private records without noise: for studies, and for an
owner's own eyes.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parley.data import Preparation
from parley.durable import replacing
from parley.errors import ModelError
from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
from parley.learning.outcome.metrics import Metrics, Quality, metrics_of, no_target_sentence
from parley.learning.outcome.model import JointModel, JointRegressor, JointSoftmaxClassifier
from parley.learning.outcome.model_file import FORMAT_WITH_WEIGHTS, preparation_content
from parley.numerals import number
from parley.owner.owner import Agreement, Owner
from parley.report.extras import extras
from parley.report.sheet import Grid, Line, Sheet
from parley.tasks.networks.architectures import architecture_of, module_scores, set_parameters
from parley.tasks.networks.question import NetworkRows, float32_rows, network_rows_of
from parley.terms import Terms
from parley.validate import Floats


class NetworkModel(JointModel):
    """The base of network regressors and classifiers. theta_ has all weights; there is no `coef_`."""

    def _take_coefficients(self, split: int) -> None:
        """Do nothing: weights of layers are no coefficients of columns."""

    def _scores(self, X: Any) -> Floats:
        from parley.tasks.networks.architectures import module_scores, set_parameters

        self._require_theta()
        module = architecture_of(self.preparation_).module()
        set_parameters(module, self.theta_)
        scores = module_scores(module, float32_rows(self._rows(X)))
        return scores if self.preparation_.model.classifies else scores[:, 0]

    def save(self, path: str | Path) -> None:
        """Write a JSON file, and the weights as safetensors beside it."""
        with extras():
            from safetensors.numpy import save

        self._require_theta()
        path = Path(path)
        weights = path.with_suffix(".safetensors")
        if weights == path:
            raise ModelError(
                f"{path}: save the model under another extension; a .safetensors file contains only the weights"
            )
        p, shapes = self.preparation_, architecture_of(self.preparation_).shapes
        pieces = np.split(float32_rows(self.theta_), np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1])
        blob = save({n: piece.reshape(shape) for (n, shape), piece in zip(shapes.items(), pieces, strict=True)})
        content = {
            "format": FORMAT_WITH_WEIGHTS,
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
    """Return the fitted model of these weights [P]."""
    kind = NetworkClassifier if preparation.model.classifies else NetworkRegressor
    return kind()._take(preparation, theta, terms_hash, released)


def stored_weights(content: Mapping[str, Any], preparation: Preparation, path: Path) -> Floats:
    """Return the weights [P] that a model file names; refuse (ModelError) others than it was saved with."""
    from safetensors.numpy import load

    named, shapes = content["weights"], architecture_of(preparation).shapes
    file = path.parent / Path(str(named["file"])).name
    try:
        blob = file.read_bytes()
    except OSError as error:
        raise ModelError(f"{file}: the weights of {path.name} cannot be read: {error.strerror}") from None
    if hashlib.sha256(blob).hexdigest() != named["sha256"]:
        raise ModelError(f"{file}: expected the weights that were saved with {path.name}")
    arrays = load(blob)
    if {name: array.shape for name, array in arrays.items()} != shapes:
        raise ModelError(f"{file}: the tensors do not fit the network in {path.name}")
    return np.concatenate([arrays[name].astype(np.float64).reshape(-1) for name in shapes])


NO_OPTIMUM = "networks have no best model without privacy to compare with"


def measured(agreements: Sequence[Agreement], theta: Floats) -> Quality:
    """Return the quality of a study's models [replicates, P]: mean training loss and held-out metrics."""
    preparation = agreements[0].setup.preparation
    train, held_out = (_pooled([getattr(a.tables, part) for a in agreements]) for part in ("train", "held_out"))
    if preparation.model.holdout_by is not None:  # who is held out is there, and counts 0
        train = train.where(train.present)
    losses = [_mean_loss(preparation, train, each) for each in theta]
    rows = [held_out_metrics(preparation, held_out, each) for each in theta]
    known = {name: [row[name] for row in rows] for name in rows[0]}
    means = {name: None if None in values else float(np.mean(values)) for name, values in known.items()}  # type: ignore[arg-type]
    return Quality(None, float(np.mean(losses)), None, None, means, {}, NO_OPTIMUM)


def held_out_metrics(preparation: Preparation, rows: NetworkRows, theta: Floats) -> Metrics:
    """Return the task's metrics of one model [P] on these records, in their own units."""
    some, predicts = rows.where(rows.present), preparation.model.predicts
    scores = _scores(preparation, some, theta)
    found = metrics_of(predicts, some.y, scores if predicts == "classes" else scores[:, 0])
    if (error := found.get("mean_absolute_error")) is not None:
        found["mean_absolute_error"] = error * preparation.target_scale
    return found


def own_metrics(terms: Terms, owner: Owner, model: JointModel) -> tuple[int, Metrics]:
    """Return (held-out rows, metrics of the joint model on them)."""
    if model.terms_hash_ != terms.hash:
        raise ModelError("this model was trained under other terms; give the terms file that it was trained with")
    agreement = owner.prepare(terms)
    held_out = network_rows_of(agreement.tables.held_out)
    if not held_out.present.any():
        raise ModelError(no_target_sentence(owner.name))
    return int(np.count_nonzero(held_out.present)), held_out_metrics(
        agreement.setup.preparation, held_out, model.theta_
    )


def _scores(preparation: Preparation, rows: NetworkRows, theta: Floats) -> Floats:
    module = architecture_of(preparation).module()
    set_parameters(module, theta)
    return module_scores(module, rows.X)


def _mean_loss(preparation: Preparation, rows: NetworkRows, theta: Floats) -> float:
    scores = _scores(preparation, rows, theta)
    if preparation.model.classifies:
        shifted_scores = scores - scores.max(axis=1, keepdims=True)
        log_p = shifted_scores - np.log(np.exp(shifted_scores).sum(axis=1, keepdims=True))
        losses = -log_p[np.arange(len(rows)), rows.y.astype(int)]
    else:
        losses = np.square(scores[:, 0] - rows.y) / 2 * preparation.target_scale**2
    return float(np.mean(losses * rows.present))


def _pooled(parts: Sequence[object]) -> NetworkRows:
    return NetworkRows.joined([network_rows_of(part) for part in parts])


def score_network(terms: Terms, model_file: Path, name: str | None, data: Path | None) -> Sheet:
    """Score the joint network on held-out rows of one owner, or of all."""
    from parley.learning.outcome import load_model
    from parley.learning.owners import open_owners, table_of

    with extras():
        model = load_model(model_file)
    owners = open_owners(terms) if name is None else [Owner(name, table_of(terms.owner(name), data))]
    metrics_by_owner = {owner.name: own_metrics(terms, owner, model) for owner in owners}
    rows = [{"name": called, "rows": held, "together": metrics} for called, (held, metrics) in metrics_by_owner.items()]
    shown = [
        Grid(
            [
                [f"{held:,} held-out rows of {called}", "together"],
                *([key.replace("_", " "), number(each)] for key, each in metrics.items()),
            ]
        )
        for called, (held, metrics) in metrics_by_owner.items()
    ]
    inside = Line(KEEP_INSIDE_NOTE, "dim", folded=True)
    return Sheet({"owners": rows, "terms_hash": terms.hash}, [*shown, inside], inside=True)
