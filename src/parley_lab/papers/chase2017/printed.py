"""What Chase et al. (as A quotes it) prints."""

from parley_lab.papers.printed import Outcome, Printed

OURS = "needs a GPU; widths, rates and clip are not printed: ours"
PRINTED = (
    Printed("table 1", OURS, compare="comparisons:table", without=Outcome.LONG),
    Printed("table 2", OURS, compare="comparisons:table", without=Outcome.LONG),
)
