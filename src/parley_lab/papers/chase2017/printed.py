"""What Chase et al. (as A quotes it) prints."""

from parley_lab.papers.printed import Printed

GPU_NOTE = "one run on a GPU; widths, rates, clips are not printed: ours; ε read as that of the whole run"
PRINTED = (
    Printed("table 1", GPU_NOTE, compare="comparisons:table"),
    Printed("table 2", GPU_NOTE, compare="comparisons:table"),
)
