"""What W prints, figure by figure, and what compares it with a run."""

from parley_lab.papers.printed import Printed, pictures

PRINTED = (
    *pictures({"figure 1": "learner and owners"}),
    Printed(
        "figure 2",
        "38,096 loans a bank are at hand, W has 250,000; the fall depends on the constant of the step",
        compare="comparisons:paths",
    ),
    Printed("figure 3", compare="comparisons:surface"),
    Printed("figure 4", compare="comparisons:slope"),
    Printed("figure 5", compare="comparisons:slope"),
    Printed("figure 6", compare="comparisons:scenarios"),
    Printed(
        "figure 7", "ψ is relative to the best model of its kind, whatever that detects", compare="comparisons:paths"
    ),
    Printed("figure 8", compare="comparisons:surface"),
    Printed("figure 9", compare="comparisons:slope"),
    Printed("figure 10", compare="comparisons:slope"),
    Printed("figure 11", compare="comparisons:scenarios"),
)
