# %% [markdown]
# # Libraries that recommend books
#
# Three town libraries lend the same books to different readers. In the smallest there are eighty readers: too few to
# find out what its books are like. The county library has thousands. What a reader likes must not leave the reader's
# library.
#
# What *books* are like may: whether many like them, and who likes what alike. That is what is learned together. What
# a *reader* likes is worked out at home, from the reader's own ratings, at the moment somebody asks. All ratings here
# are made up. (Needs the extra `parley-dp[ratings]`.)

# %%
from pathlib import Path

import numpy as np
import pandas as pd

import parley
from parley.tasks.ratings.recommender import recommendations

# %% tags=["parameters"]
READERS = {"brook": 80, "meadow": 300, "county": 4000}
TITLES = 30
ROUNDS = 10
SEED = 1

# %%
rng = np.random.default_rng(SEED)
titles = [f"book {number:02}" for number in range(1, TITLES + 1)]
kinds, liked = rng.normal(size=(TITLES, 2)), rng.normal(3.2, 0.5, TITLES)


def ratings(readers):
    """What so many readers say about some of the books, in stars from 1 to 5."""
    tastes = rng.normal(size=(readers, 2))
    reader, book = np.nonzero(rng.random((readers, TITLES)) < 0.4)
    stars = liked[book] + (tastes[reader] * kinds[book]).sum(1) + rng.normal(0, 0.5, len(book))
    names = [f"reader-{number}" for number in reader]
    return pd.DataFrame({"reader": names, "book": np.take(titles, book), "stars": stars.clip(1, 5).round()})


tables = {name: ratings(readers) for name, readers in READERS.items()}
tables["brook"].head(4)

# %% [markdown]
# ## On what terms?
#
# The unit of privacy is a *reader*, with all the ratings that the reader ever gave: nobody can tell from what is sent
# whether one of them is another person. Books are public, so the terms list them.

# %%
AGREED = f"""
title = "What books are like"

[model]
kind = "matrix-factorization"
user = "reader"
item = "book"
target = "stars"
factors = 2
items = {titles}
bounds = {{ stars = [1, 5] }}
holdout = 0.2

[learning]
horizon = {ROUNDS}

[privacy]
mechanism = "gaussian"
delta = 1e-5
clip = 5.0
"""
OWNER = """
[[owners]]
name = "{}"
records = {}
epsilon = 6.0
"""
owners_part = "".join(OWNER.format(name, table["reader"].nunique()) for name, table in tables.items())
terms = parley.Terms.from_toml(AGREED + owners_part)
parley.report.summary(terms)

# %% [markdown]
# Read the last sentence twice. An ε of 6 for everything that a reader ever rated is not a strong promise, and it says
# so. Noise is drawn for every book, so a stronger promise takes more readers beside books.
#
# ## Should we?
#
# For ratings there is no public sample to forecast from. A simulation is the way to find out; each library could run
# it on made-up ratings like ours, or on its own, for its own eyes.

# %%
owners = [parley.Owner(name, table) for name, table in tables.items()]
result = parley.train(terms, owners, seed=SEED)
parley.report.figure(result)

# %%
parley.report.summary(result)

# %% [markdown]
# The smallest library gains most, by far. *Personal* are the joint books, moved towards what a library's own readers
# say of them; that stays inside, and it is what makes joining safe for a library that is not quite like the others.
#
# ## What came out of it
#
# A release, with a ledger at every library. The file that comes out holds books and nothing about readers.

# %%
folder = Path("libraries")
folder.mkdir(exist_ok=True)
ledgers = {name: parley.Ledger(folder / f"{name}.ledger", lifetime=6.0, lifetime_delta="1e-5") for name in tables}
releasing = [parley.Owner(name, table, ledger=ledgers[name]) for name, table in tables.items()]
for owner in releasing:
    owner.accept(terms)
released = parley.train(terms, releasing)
released.model.save(folder / "books.json")
for ledger in ledgers.values():
    ledger.close()
parley.report.summary(released)

# %% [markdown]
# And what does a reader of the smallest library see?

# %%
brook = owners[0]
reader = tables["brook"]["reader"].iloc[0]
found = recommendations(released.model, terms, brook, reader, best=5)
pd.DataFrame(found, columns=["for this reader", "stars expected"]).round(1)

# %% [markdown]
# The reader's taste was worked out for this answer, from the reader's own ratings, in the library's own computer, and
# kept nowhere.
#
# ## What to try next
#
# - `READERS["county"] = 40_000`: with how small an ε do the small libraries still gain?
# - One noise for all: put `noise = "shared"` under `[privacy]` and name the three libraries as `[[hosts]]`.
# - Ratings of your own: a table with a reader, a book and the stars in each row is enough
#   ([ratings](../docs/ratings.md)).
