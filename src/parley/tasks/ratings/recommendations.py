"""What one of an owner's own users would like, solved inside when somebody asks."""

from parley.errors import SettingError
from parley.owner.owner import Owner
from parley.tasks.ratings.recommender import Recommender
from parley.tasks.ratings.table import rating_preparation
from parley.tasks.ratings.terms import item_names
from parley.terms import Terms


def recommendations(
    model: Recommender, terms: Terms, owner: Owner, user: str, best: int = 10, item: str | None = None
) -> list[tuple[str, float]]:
    """The items that a user has not rated and that rank highest, best first, with the ratings expected of them.

    The user's factors are solved from the user's own ratings at the owner's and kept nowhere. What comes back tells of
    those ratings: it is for that user.

    Formal guarantee: none. It is computed from private ratings without noise.

    Parameters
    ----------
    model
        The items, as `parley.train` learned them or `Recommender.load` read them.
    terms
        By which they were learned.
    owner
        Whose user it is.
    user
        A name in the owner's column of users.
    best
        How many items.
    item
        Only this one, rated or not.

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
    if terms.task != "ratings" or model.item_names != item_names(terms.model):
        raise SettingError("terms: expected the terms of ratings by which the model was learned")
    own = rating_preparation(terms.model).read(owner.table, terms, owner.name)
    if user not in own.user_names:
        raise SettingError(f"user: no such user in the column {terms.model.user!r} of {owner.table.where}")
    names = [item] if item is not None else model.recommend(own, user, best)
    return [(name, model.predict(own, user, name)) for name in names]
