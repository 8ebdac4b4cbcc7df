"""A recommender of learned items, which solves users' factors on request and never stores them."""

import json
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from parley.durable import replace_text
from parley.errors import ModelError, SettingError
from parley.owner.owner import Owner
from parley.tasks.ratings.algorithm import Items
from parley.tasks.ratings.question import UserUpdate
from parley.tasks.ratings.table import SCALED_HALF_RANGE, Ratings, UserRatings, by_user, rating_preparation
from parley.tasks.ratings.terms import RatingsModel
from parley.terms import Terms
from parley.validate import Floats, whole

FORMAT, KIND = 1, "matrix-factorization"
MIN_RATING_COUNT = 20.0  # how often an item is taken to be rated at least, so that noise about the rare says little


@dataclass(frozen=True, eq=False)
class Recommender:
    """Learned items, and the scale and ridges for solving a user. It holds nobody's ratings or factors."""

    items: Items
    item_names: tuple[str, ...]
    low: float = 1.0
    high: float = 5.0
    ridge: float = 10.0
    own_ridge: float = 1.0
    terms_hash: str = ""
    released: bool = False  # whether it was made of safe, debited answers alone

    def scores(self, own: UserRatings, users: NDArray[np.int64] | None = None) -> Floats:
        """Return the expected ratings [users, items] of these users, default all, from their ratings `own`."""
        x, V = self._solved(own), self.items.V
        x = x if users is None else x[users]
        return self._in_units(V[:, 0] + x[:, :1] + x[:, 1:] @ V[:, 1:].T)

    def rank_scores(self, own: UserRatings, users: NDArray[np.int64] | None = None) -> Floats:
        """Return expected rating + log(how often rated), by which items are ranked: most people rate popular items."""
        scores = (self.scores(own, users) - self.low) * (2 * SCALED_HALF_RANGE / (self.high - self.low))
        return np.asarray(scores + np.log(self.items.counts + MIN_RATING_COUNT))

    def errors(self, own: UserRatings, held_out: UserRatings) -> Floats:
        """Return the error at each held-out rating, given its user's other ratings `own`."""
        x, v = self._solved(own)[held_out.users], self.items.V[held_out.items]
        found = np.clip(
            v[:, 0] + x[:, 0] + np.einsum("nf,nf->n", x[:, 1:], v[:, 1:]), -SCALED_HALF_RANGE, SCALED_HALF_RANGE
        )
        return np.asarray((held_out.values - found) * ((self.high - self.low) / (2 * SCALED_HALF_RANGE)))

    def predict(self, own: Ratings, user: str, item: str) -> float:
        """Return the rating expected of this user for this item."""
        return float(self._of(own, user, self.scores)[_place(self.item_names, item, "item")])

    def recommend(self, own: Ratings, user: str, k: int = 10) -> list[str]:
        """Return the k best-ranked items that this user has not rated, best first."""
        scores = self._of(own, user, self.rank_scores)
        scores[own.items[own.users == own.user_names.index(user)]] = -np.inf
        best = np.argsort(-scores, kind="stable")[: whole(k, "k")]
        return [self.item_names[i] for i in best if np.isfinite(scores[i])]

    def save(self, path: str | Path) -> None:
        """Write items, their factors and public settings as JSON."""
        facts = {name: getattr(self, name) for name in ("low", "high", "ridge", "own_ridge", "terms_hash", "released")}
        content = {"format": FORMAT, "kind": KIND, "items": list(self.item_names), **facts}
        content |= {"V": self.items.V.tolist(), "counts": self.items.counts.tolist()}
        replace_text(Path(path), json.dumps(content))

    @classmethod
    def load(cls, path: str | Path) -> "Recommender":
        """Read what `save` wrote; anything else is a `ModelError`."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content["format"] != FORMAT or content["kind"] != KIND:
                raise ValueError
            V, counts = (np.array(content[name], dtype=np.float64) for name in ("V", "counts"))
            names, numbers = (
                tuple(map(str, content["items"])),
                {n: float(content[n]) for n in ("low", "high", "ridge", "own_ridge")},
            )
            UserUpdate(1.0, ridge=numbers["ridge"], own_ridge=numbers["own_ridge"])
            sound = np.isfinite(V).all() and (counts >= 0).all() and np.isfinite(counts).all()
            if not sound or V.ndim != 2 or counts.shape != (len(V),) or len(V) != len(names):
                raise ValueError
            if not numbers["low"] < numbers["high"] < np.inf or not np.isfinite(numbers["low"]):
                raise ValueError
            # earlier files have neither
            provenance = str(content.get("terms_hash", "")), bool(content.get("released", False))
        except (OSError, ValueError, KeyError, TypeError, IndexError, SettingError) as error:
            expected = "expected a file that parley train saved under terms of ratings"
            raise ModelError(f"{path}: cannot be read as a recommender ({type(error).__name__}); {expected}") from None
        return cls(Items(V, counts), names, **numbers, terms_hash=provenance[0], released=provenance[1])

    def _solved(self, own: UserRatings) -> Floats:
        """Return all users' (a_u, p_u), which stay with the owner."""
        update = UserUpdate(1.0, ridge=self.ridge, own_ridge=self.own_ridge)
        return update.solved(own, self.items.V)[0]

    def _of(self, own: Ratings, user: str, scores: "_Scores") -> Floats:
        """Return one user's scores of all items [items]."""
        if own.item_names != self.item_names:
            raise SettingError(
                "ratings: expected ratings of the model's items in the model's order; read the ratings with "
                "items=model.item_names"
            )
        place = _place(own.user_names, user, "user")
        mine = by_user(own.pick(own.users == place), np.array([place]), self.low, self.high)
        return np.asarray(scores(mine)[0])

    def _in_units(self, found: Floats) -> Floats:
        half = (self.high - self.low) / 2
        return np.asarray(np.clip((self.low + self.high) / 2 + found * (half / SCALED_HALF_RANGE), self.low, self.high))


class _Scores(Protocol):
    def __call__(self, own: UserRatings) -> Floats: ...


def _place(names: tuple[str, ...], name: str, what: str) -> int:
    if name not in names:
        near = get_close_matches(name, names, 1) if what == "item" else []  # items are public, users are not
        raise SettingError(f"{what}: no such {what} here" + (f"; did you mean {near[0]!r}?" if near else ""))
    return names.index(name)


def recommendations(
    model: Recommender, terms: Terms, owner: Owner, user: str, best: int = 10, item: str | None = None
) -> list[tuple[str, float]]:
    """Return the best-ranked items that a user has not rated, best first, with their expected ratings.

    The owner solves the user's factors from the user's own ratings and does not keep them. The result reveals those
    ratings: it is for that user.

    Formal guarantee: none. It is computed from private ratings without noise.

    Parameters
    ----------
    model
        The items, from `parley.train` or `Recommender.load`.
    terms
        The terms of their training.
    owner
        The user's owner.
    user
        A name in the owner's column of users.
    best
        The number of items.
    item
        Only this item, rated or not.

    Returns
    -------
    list of (item, expected rating)
        Best first.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from parley.tasks.ratings.algorithm import Items
    >>> terms = Terms.from_dict({
    ...     "model": {"kind": "matrix-factorization", "user": "who", "item": "book", "target": "stars", "factors": 1,
    ...               "items": ["Emma", "Dune"], "bounds": {"stars": [1, 5]}},
    ...     "privacy": {"mechanism": "gaussian", "delta": 1e-5, "clip": 5.0},
    ...     "owners": [{"name": "library", "records": 1, "epsilon": 1.0}],
    ... })
    >>> model = Recommender(Items(np.array([[0.5, 1.0], [1.0, -1.0]]), np.array([9.0, 4.0])), ("Emma", "Dune"))
    >>> ratings = pd.DataFrame({"who": ["ann"], "book": ["Emma"], "stars": [4]})
    >>> [name for name, _ in recommendations(model, terms, Owner("library", ratings), "ann")]
    ['Dune']
    """
    if terms.task != "ratings" or model.item_names != RatingsModel.expect(terms.model).item_names:
        raise SettingError("terms: expected the terms that the model was trained with")
    preparation = rating_preparation(terms.model)
    own = preparation.read(owner.table, terms, owner.name)
    if user not in own.user_names:
        raise SettingError(f"user: expected a user from the column {preparation.model.user!r} of {owner.table.where}")
    names = [item] if item is not None else model.recommend(own, user, best)
    return [(name, model.predict(own, user, name)) for name in names]
