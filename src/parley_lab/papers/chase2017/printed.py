"""What Chase et al. (as A quotes it) prints, figure by figure and table by table, and whether it comes out here."""

from parley_lab.papers.printed import Outcome, Printed

PRINTED = (
    Printed("table 1", Outcome.LONG, "wants a GPU; widths, rates and clip are not printed, so ours are our own"),
    Printed("table 2", Outcome.LONG, "wants a GPU; widths, rates and clip are not printed, so ours are our own"),
)
