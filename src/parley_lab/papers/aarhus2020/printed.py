"""What A prints, figure by figure and table by table, and what compares it with a run."""

from parley_lab.papers.printed import Outcome, Printed, pictures

TABLE_NOTE = "A's ε is that of one step; the clip is not printed and is fitted to the row without noise"
PRINTED = (
    *pictures({"figure 1": "membership inference", "figure 2": "shadow models", "figure 3": "a neuron"}),
    Printed("figure 4", "A prints no ε: ours is ln 2", compare="comparisons:laws", quick=True),
    Printed(
        "table 1",
        "needs a GPU",
        "Chase's small network",
        "parley reproduce chase2017 --table 1",
        again=("chase2017", "table 1"),
        without=Outcome.LONG,
    ),
    Printed(
        "table 2",
        "needs a GPU",
        "Chase's large network",
        "parley reproduce chase2017 --table 2",
        again=("chase2017", "table 2"),
        without=Outcome.LONG,
    ),
    *(Printed(f"table {number}", TABLE_NOTE, compare="comparisons:accuracies") for number in (3, 4, 5, 6)),
    Printed("figure 5", "draws tables 3 and 5", compare="comparisons:accuracies"),
    Printed("figure 6", "draws tables 4 and 6", compare="comparisons:accuracies"),
    Printed(
        "figure 7",
        "A starts from random weights; ours are judged with and without their start",
        compare="comparisons:weights",
    ),
    Printed("figure 8", "A: the eye sees nothing but noise", compare="comparisons:weights"),
    Printed("figure 9", "A: the shape of 0 slowly emerges", compare="comparisons:zeros"),
)
