# %% [markdown]
# # Clinics that gain
#
# Nine small clinics and a university hospital treat the same illnesses. Each would like to know, on the day a patient
# comes in, how long the stay will be: beds and nurses depend on it. A clinic with 120 patients cannot learn that
# alone. None of them may hand a patient's record to anybody.
#
# This notebook asks the three questions in their order: **should we learn together, on what terms, and what came out
# of it?** Every patient in it is made up.

# %%
from pathlib import Path

import numpy as np
import pandas as pd

import parley

# %% tags=["parameters"]
PATIENTS = {
    "birch": 120,
    "cedar": 150,
    "elm": 190,
    "fir": 240,
    "hazel": 300,
    "larch": 380,
    "maple": 480,
    "oak": 600,
    "pine": 760,
    "university": 12_000,
}
RUNS = 20
SEED = 1

# %% [markdown]
# ## The tables
#
# Clinics differ a little: each has its habits, some discharge patients earlier than others. Beside the private tables
# there is a small public one, from a country where everybody stays a day longer. It says how large numbers usually
# are and which wards there are, and nobody has to be asked for it.

# %%
LONGER = {"heart": 1.0, "medicine": 0.0, "surgery": 2.0, "trauma": 3.5}
rng = np.random.default_rng(SEED)


def patients(count, habit):
    """So many patients of one clinic, and how many days each stayed."""
    table = pd.DataFrame(
        {
            "age": rng.integers(30, 90, count),
            "albumin": rng.normal(38, 5, count).round(1),
            "creatinine": rng.lognormal(0, 0.3, count).round(2),
            "earlier_visits": rng.poisson(1.0, count),
            "pressure": rng.normal(130, 18, count).round(),
            "pulse": rng.normal(80, 12, count).round(),
            "smoker": rng.integers(0, 2, count),
            "ward": rng.choice(list(LONGER), count),
            "weight": rng.normal(75, 14, count).round(),
        }
    )
    usual = 0.05 * table["age"] - 0.12 * table["albumin"] + 1.5 * table["creatinine"] + 0.02 * table["pulse"]
    more = 0.8 * table["smoker"] + 0.6 * table["earlier_visits"] + table["ward"].map(LONGER)
    return table.assign(days=(5 + habit + usual + more + rng.normal(0, 3, count)).clip(0, 60).round(1))


tables = {name: patients(count, habit=rng.normal(0, 0.4)) for name, count in PATIENTS.items()}
folder = Path("clinics")
folder.mkdir(exist_ok=True)
patients(200, habit=1.0).to_csv(folder / "public.csv", index=False)
tables["birch"].head(3)

# %% [markdown]
# ## On what terms?
#
# What owners agree on is one file. They promise ε, the most that everything they send together may tell about a
# single patient; they say which rows are held out to judge the model by; and they say where the noise is drawn. Here
# three of them draw one noise for all, and none of the three knows it.

# %%
AGREED = """
title = "Length of stay: nine clinics and a university hospital"

[model]
kind = "linear-regression"
target = "days"
features = ["age", "albumin", "creatinine", "earlier_visits", "pressure", "pulse", "smoker", "ward", "weight"]
coding = "one-hot"
public = "public.csv"
holdout = 0.25
intercept = true

[privacy]
mechanism = "gaussian"
delta = 1e-6
clip = 10.0
noise = "shared"

[[hosts]]
name = "birch"
[[hosts]]
name = "oak"
[[hosts]]
name = "university"
"""
OWNER = """
[[owners]]
name = "{}"
records = {}
epsilon = 0.5
"""
owners_part = "".join(OWNER.format(name, count) for name, count in PATIENTS.items())
(folder / "terms.toml").write_text(AGREED + owners_part, encoding="utf-8")
terms = parley.load_terms(folder / "terms.toml")
parley.report.summary(terms)

# %% [markdown]
# The sentence below the table is what a patient may ask about. Somebody who thought it as likely as not that this
# patient is in the table, and who then sees everything that was sent, is still far from certain.
#
# How a budget is *spent* matters, too: in few loud rounds or in many quiet ones, from nothing or from the best fit of
# the public rows. The planner tries it on public rows alone.

# %%
proposal = parley.plan(terms)
terms = proposal.terms
parley.report.summary(proposal)

# %% [markdown]
# ## Should we?
#
# Not one private row has been looked at so far, and none is needed for the next answer, either: sizes, budgets and
# public rows are enough to say what each clinic will gain.

# %%
forecast = parley.forecast(terms)
parley.report.figure(forecast)

# %%
parley.report.summary(forecast)

# %% [markdown]
# The smaller a clinic, the more it is expected to gain. None of it is sure: nobody knows how much the clinics differ.
# The university hospital gains nothing, and it would be honest to tell it so before it signs. (Why it might join all
# the same: [credit unions](credit_unions.ipynb) pay their large bank.)
#
# *Personal* is what a clinic makes of the joint model with its own rows, inside: with patients of its own habits it
# need not take the joint model as it is.
#
# ## What came out of it
#
# First a simulation, on this machine, of the whole training twenty times over. It shows how much of the outcome is
# luck, and whether the forecast was right about the way there.

# %%
owners = [parley.Owner(name, table) for name, table in tables.items()]
result = parley.train(terms, owners, replicates=RUNS, seed=SEED)
parley.report.figure(result, forecast)

# %%
parley.report.summary(result)

# %% [markdown]
# The joint model with noise is nearly as good as one that all clinics would have trained with their tables on one heap.
# But is it good for *each*? Every clinic finds out for itself, on the rows it held out, and tells nobody.

# %%
verdicts = [parley.score(terms, owner, result.model) for owner in owners]
parley.report.figure(forecast, verdicts)

# %%
parley.report.summary(verdicts)

# %% [markdown]
# Thirty held-out patients say little about one clinic: the intervals are wide. Over all of them it is by and large what
# was forecast, before anybody sent a number.
#
# In earnest it would be a release: noise that is safe to send, and a ledger at each clinic that debits every answer
# before it leaves. A budget that is spent stays spent.

# %%
ledgers = {name: parley.Ledger(folder / f"{name}.ledger", lifetime=1.0, lifetime_delta="1e-5") for name in tables}
releasing = [parley.Owner(name, table, ledger=ledgers[name]) for name, table in tables.items()]
for owner in releasing:
    owner.accept(terms)
released = parley.train(terms, releasing)
left = {name: float(ledger.lifetime[0] - ledger.reserved[0]) for name, ledger in ledgers.items()}
for ledger in ledgers.values():
    ledger.close()
parley.report.summary(released)

# %%
pd.DataFrame([left], index=["ε left for the rest of the table's life"])

# %% [markdown]
# ## What to try next
#
# - Take out the university hospital: `terms.changed(only=[...])` and forecast again. Do nine clinics alone still
#   gain?
# - Let every clinic add its own noise: leave out `noise` and the hosts. What is added ten times has ten times the
#   variance.
# - Ask for more privacy: at which ε does the smallest clinic stop gaining? `parley.outlook(terms).at(epsilon=0.2)`.
# - The same without code: `parley studio clinics/terms.toml` opens a page with a slider for every ε ([the
#   studio](../docs/studio.md)).
