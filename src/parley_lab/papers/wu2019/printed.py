"""What W prints, figure by figure, and what compares it with a run."""

from parley_lab.papers.printed import Printed, pictures

ROWS_NOTE = "our rows are shuffled, where W takes the first n1"
MODEL_NOTE = f"{ROWS_NOTE}; our model has a constant, W's has none"
LOANS_NOTE = f"{MODEL_NOTE}; at most 38,096 loans a bank"
SLOPE_NOTE = (
    "W's slope is of ψ; fitted: of what noise adds, where ψ is below 3 and above 5 times what remains without noise; "
    "W's grid is not printed: ours"
)
PRINTED = (
    *pictures({"figure 1": "learner and owners"}),
    Printed(
        "figure 2",
        "38,096 loans a bank are at hand, W has 250,000; decided by the introduction's ψ < 0.1 (there 3 x 350,000); "
        f"the fall depends on the constant of the step; {MODEL_NOTE}",
        compare="comparisons:paths",
    ),
    Printed("figure 3", LOANS_NOTE, compare="comparisons:surface"),
    Printed("figure 4", f"{SLOPE_NOTE}; {LOANS_NOTE}", compare="comparisons:slope"),
    Printed("figure 5", f"{SLOPE_NOTE}; {LOANS_NOTE}", compare="comparisons:slope"),
    Printed(
        "figure 6",
        f"the first bank has up to 57,146 loans (W: 100,000), large others 28,572; {MODEL_NOTE}",
        compare="comparisons:scenarios",
    ),
    Printed(
        "figure 7",
        f"ψ is relative to the best model of its kind, whatever that detects; {ROWS_NOTE}",
        compare="comparisons:paths",
    ),
    Printed("figure 8", ROWS_NOTE, compare="comparisons:surface"),
    Printed("figure 9", f"{SLOPE_NOTE}; {ROWS_NOTE}", compare="comparisons:slope"),
    Printed("figure 10", f"{SLOPE_NOTE}; {ROWS_NOTE}", compare="comparisons:slope"),
    Printed("figure 11", ROWS_NOTE, compare="comparisons:scenarios"),
)
