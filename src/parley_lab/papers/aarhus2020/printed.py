"""What A prints, figure by figure and table by table, and what compares it with a run."""

from parley_lab.papers.printed import Printed, pictures

CHASE_NOTE = "one run on a GPU; widths, rates, clips are not printed: ours; ε read as that of the whole run"
TABLE_NOTE = (
    "A's ε is that of one step; clip (fitted to the row without noise), start (standard normal) and number of peers "
    "(3) are not printed"
)
SCATTER_NOTE = f"{TABLE_NOTE}; at ε = 0.02 our runs scatter by ±5 points"
NO_SCALE_NOTE = "A prints no scale of its random start; ours is standard normal"
START_NOTE = f"{NO_SCALE_NOTE}; less the start digits show"
PRINTED = (
    *pictures({"figure 1": "membership inference", "figure 2": "shadow models", "figure 3": "a neuron"}),
    Printed("figure 4", "A prints no ε: ours is ln 2", compare="comparisons:laws", quick=True),
    Printed(
        "table 1",
        CHASE_NOTE,
        "Chase's small network",
        "parley reproduce chase2017 --table 1",
        again=("chase2017", "table 1"),
    ),
    Printed(
        "table 2",
        CHASE_NOTE,
        "Chase's large network",
        "parley reproduce chase2017 --table 2",
        again=("chase2017", "table 2"),
    ),
    *(Printed(f"table {number}", TABLE_NOTE, compare="comparisons:accuracies") for number in (3, 4, 5)),
    Printed("table 6", SCATTER_NOTE, compare="comparisons:accuracies"),
    Printed("figure 5", f"draws tables 3 and 5; {TABLE_NOTE}", compare="comparisons:accuracies"),
    Printed("figure 6", f"draws tables 4 and 6; {SCATTER_NOTE}", compare="comparisons:accuracies"),
    Printed("figure 7", START_NOTE, compare="comparisons:weights"),
    Printed(
        "figure 8",
        f"A: the eye sees nothing but noise; decided by weights less their start; {NO_SCALE_NOTE}",
        compare="comparisons:weights",
    ),
    Printed("figure 9", f"A: the shape of 0 slowly emerges; {START_NOTE}", compare="comparisons:zeros"),
)
