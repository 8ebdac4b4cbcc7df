# %% [markdown]
# # Credit unions and a large bank
#
# Credit unions of one country want to know at which rate a loan should be given. Each has some hundreds of members; a
# national bank has twenty thousand customers. With the bank's loans the unions would learn a lot. The bank would
# learn nothing from theirs. Should it help, and what is that worth?
#
# It is the story that `parley demo` tells, with fewer unions, by code. The tables are made up; regions differ in who
# borrows and in what loans cost.

# %%
from pathlib import Path

import parley
from parley.demo.folder import write_unions

# %% tags=["parameters"]
UNIONS = JUDGES = 14
WANTED = 0.007
SEED = 1

# %%
folder = Path("credit_unions")
folder.mkdir(exist_ok=True)
unions = write_unions(folder, SEED, UNIONS)
terms = parley.load_terms(folder / "terms.toml")
parley.report.summary(terms)

# %% [markdown]
# `terms.toml` lies in the folder, beside a table for each owner and `public.csv`, three hundred loans of a
# neighbouring country. An ε of 0.2 is a strong promise. It takes one noise for all, which three of the unions draw
# together.
#
# ## Should we?

# %%
forecast = parley.forecast(terms)
parley.report.figure(forecast)

# %% [markdown]
# From the smallest union on top to the bank at the bottom: who has few loans is expected to gain, who has many is not.
# And if everybody adds its own noise instead?

# %%
own_noise = parley.forecast(parley.load_terms(folder / "own_noise.toml"))
parley.report.figure(own_noise)

# %% [markdown]
# Then little is left: noise that is added fifteen times is louder than noise that is added once.
#
# ## On what terms?
#
# A forecast says what a model is worth in squared percentage points. What that is in dollars, and what an ε costs the
# one who spends it (lawyers, worried members), only the owners can say. They did: `value` and `privacy_cost` in the
# terms. So there is a game. Everybody may leave, nobody is paid: who stays?

# %%
free = parley.negotiate(terms)
parley.report.summary(free)

# %% [markdown]
# **Nobody.** The bank has nothing to gain, so it leaves. Without its rows the same noise weighs more on everybody
# else, the largest unions are better off alone, they leave, and so on, down to the smallest. Everyone would have
# liked to stay.
#
# What would it take? We ask for a model whose training cost lies 0.7 % (`WANTED`) above that of a model without
# privacy, and for the cheapest contracts under which nobody wants to leave. The learner pays.

# %%
deal = parley.negotiate(terms, target=WANTED)
parley.report.summary(deal)

# %% [markdown]
# Nearly half of it goes to the bank, the rest to the largest unions, and these come out even. The small ones gain, but
# less than all of it costs: fourteen unions are too few to pay a bank. With 39 (`parley demo`) they gain more than the
# bill.

# %%
parley.report.figure(deal)

# %% [markdown]
# On the left, what the common ε is worth to each owner before payments: too small and the noise drowns everything,
# too large and privacy costs more than it brings. On the right, what a better model costs.
#
# ## What came out of it
#
# The deal is a set of terms like any other. We train by it, and every union judges the outcome on its own held-out
# loans.

# %%
agreed = deal.agreed_terms()
owners = [parley.Owner(union.name, folder / f"{union.name}.csv") for union in unions]
result = parley.train(agreed, owners, seed=SEED)
parley.report.summary(result)

# %%
verdicts = [parley.score(agreed, owner, result.model) for owner in owners[:JUDGES]]
parley.report.figure(parley.forecast(agreed), verdicts)

# %%
parley.report.summary(verdicts)

# %% [markdown]
# Held-out loans of a single union are few, so single outcomes scatter widely around the forecast. That is no fault of
# the forecast: with that little data, alone is a gamble as well.
#
# ## What to try next
#
# - How cheap may the bank be? Raise its `privacy_cost` in `credit_unions/terms.toml` until the deal breaks.
# - Play with it: `parley studio credit_unions/terms.toml` shows budgets and payments while you move the sliders ([the
#   studio](../docs/studio.md)).
# - Forty owners, three large banks and the whole report: `parley demo`.
# - What is a game, what is an equilibrium here: [games](../docs/games.md).
