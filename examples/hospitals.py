# %% [markdown]
# # Heart disease in four hospitals
#
# Real patients this time: 920 people who were examined for heart disease in Cleveland, Budapest, Zurich and Basel,
# and Long Beach in the 1980s (UCI Heart Disease; Janosi, Steinbrunn, Pfisterer, Detrano; CC BY 4.0). Tables as they
# come: codes for categories, many cells empty, four hospitals that see very different people. Nobody has a public
# sample.
#
# The question is one that hospitals do ask: does this person have a narrowed vessel? And before it: **should we learn
# together, on what terms, and what came out of it?**
#
# The files are not part of Parley. The folder that `PARLEY_DATA` names has to hold `heart_cleveland.csv`,
# `heart_hungarian.csv`, `heart_switzerland.csv` and `heart_va.csv`: the four `processed.*.data` files of
# <https://archive.ics.uci.edu/dataset/45/heart+disease> with the names of the columns in a first line and nothing in
# the place of `?`.

# %%
import os
import shutil
from pathlib import Path

import pandas as pd

import parley

# %% tags=["parameters"]
HOSPITALS = {
    "cleveland": "heart_cleveland.csv",
    "budapest": "heart_hungarian.csv",
    "zurich-basel": "heart_switzerland.csv",
    "long-beach": "heart_va.csv",
}
EPSILON = 1.0
RUNS = 20
SEED = 1

# %%
folder = Path("hospitals")
folder.mkdir(exist_ok=True)
for name, file in HOSPITALS.items():
    shutil.copyfile(Path(os.environ["PARLEY_DATA"]) / file, folder / f"{name}.csv")
tables = {name: pd.read_csv(folder / f"{name}.csv") for name in HOSPITALS}
pd.DataFrame(
    {
        "patients": {name: len(table) for name, table in tables.items()},
        "healthy": {name: f"{(table['num'] == 0).mean():.0%}" for name, table in tables.items()},
        "cells empty": {name: f"{table.isna().mean().mean():.0%}" for name, table in tables.items()},
    }
)

# %% [markdown]
# Only somebody who has all four tables can print this, and nobody should have them. It shows what we are up against:
# in Zurich and Basel hardly anybody is healthy, in Budapest most people are, and Long Beach did not measure much.
#
# ## On what terms?
#
# Without public rows, physicians say what they know: between which values a blood pressure lies, which codes a kind
# of chest pain has. That is all that the terms need. `draft_terms` is `parley init`: of the private files it reads
# the names of columns and the number of rows.

# %%
RANGES = {
    "age": (20, 90),
    "trestbps": (80, 200),
    "chol": (0, 500),
    "thalach": (60, 210),
    "oldpeak": (-2, 6),
    "ca": (0, 3),
}
CODES = {
    "sex": ("0", "1"),
    "cp": ("1", "2", "3", "4"),
    "fbs": ("0", "1"),
    "restecg": ("0", "1", "2"),
    "exang": ("0", "1"),
    "slope": ("1", "2", "3"),
    "thal": ("3", "6", "7"),
}
made = parley.draft_terms(
    [folder / f"{name}.csv" for name in HOSPITALS],
    target="num",
    kind="logistic-regression",
    positive="0",
    bounds=RANGES,
    categories=CODES,
    epsilon=EPSILON,
    delta=1e-5,
    holdout=0.3,
    hosts=("cleveland", "budapest", "long-beach"),
    title="Heart disease in four hospitals",
)
terms = made.terms
parley.report.summary(made)

# %% [markdown]
# With so few patients one round is best: a single answer of each hospital, with the whole budget behind it.

# %%
parley.report.summary(terms)

# %% [markdown]
# ## Should we?

# %%
forecast = parley.forecast(terms)
parley.report.summary(forecast)

# %% [markdown]
# An honest forecast of somebody who knows nothing: without public rows nobody can say how strongly a pulse and a
# diagnosis hang together. It expects nothing of joining, and says "stay". So we simulate, which in earnest each
# hospital can do on its own rows.
#
# ## What came out of it

# %%
owners = [parley.Owner(name, folder / f"{name}.csv") for name in HOSPITALS]
result = parley.train(terms, owners, replicates=RUNS, seed=SEED)
parley.report.summary(result)

# %% [markdown]
# Look at the AUC: how often does the model rank a healthy person before a sick one? With ε = 1 for everybody it is
# about what all tables on one heap would give without any privacy. 920 patients, one noisy answer of each hospital,
# and a model that tells healthy from sick as well as the one that nobody is allowed to train.
#
# Is it better for *each* of them than what it can do alone?

# %%
verdicts = [parley.score(terms, owner, result.model) for owner in owners]
parley.report.figure(verdicts)

# %%
kinds = ("together", "alone", "personal")
pd.DataFrame({each.owner: {kind: getattr(each, kind)["auc"] for kind in kinds} for each in verdicts}).T.round(2)

# %%
parley.report.summary(verdicts)

# %% [markdown]
# Mostly not, and the forecast did not promise it. Cleveland and Budapest have three hundred patients each and know them
# better than anybody. Zurich and Basel, where hardly anybody is healthy, are too different from the others. Only Long
# Beach, with gaps wherever one looks, comes out with a clearly better ranking than it has alone. (Its interval is wide,
# as all are: sixty held-out patients.)
#
# So who needs this model? A fifth hospital, which has no table at all. That is what a forecast per owner is for: a
# good joint model is not a reason for everybody to join, and those who do not gain may want to be asked nicely, or
# [paid](credit_unions.ipynb).
#
# ## What to try next
#
# - A fifth hospital: `three = terms.changed(only=[...])` leaves one out (of those that are no hosts); train with the
#   others, and let it judge by `result.model.predict`.
# - How much ε does it take? Set `EPSILON = 0.3` and `EPSILON = 3` above.
# - Nobody knows ranges either? The owners can be asked, with noise: [no public sample](../docs/from_files.md).
# - From files by commands alone: [two hospitals](../docs/tutorials/hospital.md).
