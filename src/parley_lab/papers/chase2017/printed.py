"""What Chase et al. (as A quotes it) prints."""

from parley_lab.papers.printed import Outcome, Printed

GPU_NOTE = "needs a GPU; widths, rates and clip are not printed: ours"
PRINTED = (
    Printed("table 1", GPU_NOTE, compare="comparisons:table", without=Outcome.LONG),
    Printed("table 2", GPU_NOTE, compare="comparisons:table", without=Outcome.LONG),
)
