"""The questions of `parley init`, the same in the terminal and in the studio, and how lists are typed."""

import csv
from collections.abc import Sequence

from parley.errors import SettingError
from parley.terms.catalogue import kinds_from_files

EPSILON = "ε of every owner: how much all answers may reveal about a person (0.1 strict, 1 usual, 5 loose)"
DELTA = "δ: the probability with which the promise may fail; 0 rules out Gaussian noise"
PERSON = "Can a person have several rows? If yes, name the column that identifies people (empty: no)"
PERSON_ROWS = "What is the largest number of rows to use per person?"
FIRST_ROWS = "Parley uses each person's first rows, in file order. More rows per person need more noise for the same ε."
HOSTS = (
    "Three hosts can draw shared noise, which no host knows, so the model has less noise. Names of the hosts, A,B,C "
    "(empty: each owner draws its own noise)"
)
MISSING = (
    "Can the table have missing cells? If yes, a second column marks the missing cells of each feature, and more noise "
    "is needed. If no, Parley refuses a table with a missing cell"
)
QUOTING_HINT = 'put a name with a comma in double quotes: "Professional, Technical",Clerical'
SPREAD = (  # of a column
    f"LOW,HIGH (dates as 2015-01-01) or the column's names A,B,C ({QUOTING_HINT}; empty: owners release noisy counts)"
)
MERGE = "Do these names mean the same thing"
DATES = "Every date in {column} can be read in several ways. How are the dates written: {ways}"
TWO_NAMES = "The two names in {target}, such as no,yes; the second name counts as 1"
NOT_TWO_MESSAGE = "expected two different names, such as no,yes; the second name counts as 1"
EVENT = "The column that says whether the event happened (1) or not (0)"
PERIODS = "The ends of the periods, such as 30,90,365"
EXPOSURE = "The exposure column, such as the years in which events were counted (empty: equal for all rows)"
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
        raise SettingError(f"{what}: expected names separated by commas; {QUOTING_HINT}") from None
    return tuple(word.strip() for word in words if word.strip())


def as_list(names: Sequence[str]) -> str:
    """Join names by commas so that `listed` reads them back."""
    quoted = ('"' + name.replace('"', '""') + '"' if {*name} & {*',"'} else name for name in names)
    return ",".join(quoted)
