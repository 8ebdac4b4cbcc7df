"""The demo's folder of tables and terms files."""

from collections.abc import Sequence
from pathlib import Path

from parley.demo.unions import BANK, UNIONS, Union, large_banks, make_unions, public_sample

EPSILON = 0.2
HOSTS = ("coast-1", "lakes-1", "plains-1")  # three unions draw the one noise
SHARED_NOISE_FILE, OWN_NOISE_FILE, BANKS_FILE = "terms.toml", "own_noise.toml", "banks.toml"
VALUE_PER_LOAN, PRIVACY_COST_PER_LOAN = (
    1.0,
    0.15,
)  # in dollars a loan: of one unit of test cost (squared points), and of one unit of epsilon
BANK_PRIVACY = 0.03  # the bank's price: the law asks it for the paperwork anyway

MODEL = """\
[model]
kind = "linear-regression"
target = "int_rate"             # the interest rate of the loan
features = ["loan_amnt", "term", "annual_inc", "dti", "fico", "revol_util", "delinq_2yrs", "open_acc", "emp_length",
            "home_ownership", "purpose"]
coding = "one-hot"              # each category name becomes a column of 0 and 1
public = "public.csv"           # a small public sample, used for scales, bounds, categories and forecasts
whitening = "public"            # features are transformed so that they are uncorrelated on the public sample
intercept = true
holdout = 0.2                   # the share of each table that is held out for scoring
"""

# how the budgets are spent, as `parley plan` proposed for each kind of noise, with a third of the rounds where that is
# as good
PLANS = {
    SHARED_NOISE_FILE: """\
[learning]
algorithm = "averaged-subgradient"
horizon = 16
step = 1.2

[privacy]
mechanism = "gaussian"
delta = 1e-6
clip = 15.34                    # owners scale down larger gradients of records to this norm
noise = "shared"                # drawn by three hosts for all owners; no host knows the noise
""",
    OWN_NOISE_FILE: """\
[learning]
algorithm = "gradient-descent"
horizon = 3
step = 0.7761
average = "tail"
decay = 0.0

[privacy]
mechanism = "gaussian"
delta = 1e-6
clip = 4.29                     # owners scale down larger gradients of records to this norm
""",
}


def write_unions(folder: Path, seed: int, count: int = UNIONS) -> list[Union]:
    """Write the tables of the unions and a large bank, the public sample, and terms with one noise (`terms.toml`) and
    with each owner's own (`own_noise.toml`).

    Parameters
    ----------
    folder
        An existing folder for the files.
    seed
        The seed of all draws.
    count
        The number of unions; the bank is one more.

    Returns
    -------
    list of Union
        Each with its `name`, its number of `records`, and the law of its loans.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [union.name for union in write_unions(Path(folder), seed=1, count=3)]
    ['coast-1', 'hills-1', 'lakes-1', 'national-bank']
    """
    unions = make_unions(seed, count)
    public_sample(seed).to_csv(folder / "public.csv", index=False)
    _write_tables(folder, unions, seed)
    (folder / SHARED_NOISE_FILE).write_text(
        _terms("Credit unions, one noise for all", PLANS[SHARED_NOISE_FILE], unions, HOSTS), encoding="utf-8"
    )
    (folder / OWN_NOISE_FILE).write_text(
        _terms("Credit unions, each with its own noise", PLANS[OWN_NOISE_FILE], unions, ()), encoding="utf-8"
    )
    return unions


def write_banks(folder: Path, seed: int) -> list[Union]:
    """Write three large banks' tables, and terms with one noise that they host, beside the unions' public sample."""
    banks = large_banks(seed)
    _write_tables(folder, banks, seed)
    terms = _terms("Three large banks", PLANS[SHARED_NOISE_FILE], banks, [bank.name for bank in banks])
    (folder / BANKS_FILE).write_text(terms, encoding="utf-8")
    return banks


def _write_tables(folder: Path, owners: Sequence[Union], seed: int) -> None:
    for owner in owners:
        owner.loans(seed).to_csv(folder / f"{owner.name}.csv", index=False)


def _terms(title: str, plan: str, owners: Sequence[Union], hosts: Sequence[str]) -> str:
    parts = [f'title = "{title}"\n', MODEL, plan]
    parts += [f'[[hosts]]\nname = "{name}"\n' for name in hosts]
    return "\n".join([*parts, *map(_owner, owners)])


def _owner(owner: Union) -> str:
    price = BANK_PRIVACY if owner.name == BANK else PRIVACY_COST_PER_LOAN
    return f"""\
[[owners]]
name = "{owner.name}"
records = {owner.records}
epsilon = {EPSILON}
data = "{owner.name}.csv"
value = {owner.records * VALUE_PER_LOAN:.1f}
privacy_cost = {{ kind = "linear", weight = {owner.records * price:.2f} }}
"""
