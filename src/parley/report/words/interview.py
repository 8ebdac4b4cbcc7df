"""The questions of `parley init`, the same in the terminal and in the studio, and how lists are typed."""

import csv
from collections.abc import Sequence

from parley.errors import SettingError
from parley.terms.catalogue import THREE_HOST_SWITCHES, kinds_from_files

EPSILON = "ε of every owner: how much all answers may reveal about a person (0.1 strict, 1 usual, 5 loose)"
DELTA = "δ: the allowance for improbable outcomes that reveal more than ε (Gaussian noise needs a δ above 0)"
PERSON = "Can a person have several rows? If yes, name the column that identifies people (empty: no)"
PERSON_ROWS = "What is the largest number of rows to use per person?"
FIRST_ROWS = "Parley uses each person's first rows, in file order. More rows per person need more noise for the same ε."
HOSTS = (
    "Three hosts can draw shared noise, which no host knows, so the model has less noise. Names of the three hosts, "
    "such as A,B,C (empty: each owner draws its own noise)"
)
THREE_HOSTS = {  # what three hosts may also do, by the key of the terms
    key: f"Should {facts.does}? The noise stays the same, but {facts.cost}"
    for key, facts in THREE_HOST_SWITCHES.items()
}
MISSING = (
    "Can the table have missing cells? If yes, Parley marks the missing cells of each feature in a second column and "
    "adds more noise. If no, Parley refuses tables with missing cells"
)
QUOTING_HINT = 'put a name with a comma in double quotes: "Professional, Technical",Clerical'
SPREAD = (  # of a column
    f"the column's range LOW,HIGH (dates as 2015-01-01) or names A,B,C ({QUOTING_HINT}; empty: owners release noisy "
    "counts)"
)
MERGE = "Do these names mean the same thing"
DATES = "The dates in {column} are ambiguous. How are the dates written: {ways}"
TWO_NAMES = "The two names in {target}, such as no,yes; the second name counts as 1"
NOT_TWO_MESSAGE = "enter two different names, such as no,yes; the second name counts as 1"
EVENT = "The column that is 1 if the event happened and 0 if not"
PERIODS = "The ends of the time periods, such as 30,90,365"
EXPOSURE = (
    "The exposure column, such as the number of years in which events were counted (empty: the same for all rows)"
)
_KINDS = {
    "linear-regression": "a number, by a weighted sum of columns",
    "logistic-regression": "one of two classes, with probabilities",
    "softmax-regression": "one of several classes, with probabilities",
    "poisson-regression": "a count, such as visits in a year",
    "survival": "a time until something happens",
    "boosted-regression": "a number, by trees",
    "boosted-classification": "one of two classes, by trees",
    "linear-svm": "one of two classes, by a separating line",
    "one-vs-all": "one of several classes, each against the others",
    "least-squares-classes": "one of several classes, by least squares",
}


def kinds_in_words() -> dict[str, str]:
    """Return the kinds of model that `parley init` writes terms for with their targets, usual ones first."""
    offered = kinds_from_files()
    return {kind: words for kind, words in _KINDS.items() if kind in offered}


def listed(text: str | None, what: str = "names") -> tuple[str, ...]:
    """Split a text at commas, except in double quotes."""
    try:
        (words,) = csv.reader([(text or "").replace("\n", " ")], skipinitialspace=True, strict=True)
    except csv.Error:
        raise SettingError(
            f"{what}: Parley cannot read the double quotes; separate names by commas and {QUOTING_HINT}"
        ) from None
    return tuple(word.strip() for word in words if word.strip())


def as_list(names: Sequence[str]) -> str:
    """Join names by commas so that `listed` reads them back."""
    quoted = ('"' + name.replace('"', '""') + '"' if {*name} & {*',"'} else name for name in names)
    return ",".join(quoted)
