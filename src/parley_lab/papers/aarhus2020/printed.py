"""What A prints, figure by figure and table by table, and whether it comes out here."""

from parley_lab.papers.printed import Outcome, Printed, pictures

TABLE = "accuracies within 6 points but for 1 place of 40; its ε is of one step, and 50 epochs cost"
PRINTED = (
    *pictures({"figure 1": "membership inference", "figure 2": "shadow models", "figure 3": "a neuron"}),
    Printed(
        "figure 4",
        Outcome.COMES_OUT,
        "at ε = ln 2, since none is printed, no answer is more than 2 times as likely; the two coins cost ln 3",
        quick=True,
    ),
    Printed("table 1", Outcome.LONG, "wants a GPU", "Chase's small network", "parley reproduce chase2017 --table 1"),
    Printed("table 2", Outcome.LONG, "wants a GPU", "Chase's large network", "parley reproduce chase2017 --table 2"),
    Printed("table 3", Outcome.COMES_OUT, f"{TABLE} 4.74 to 99.2 in all", quick=True),
    Printed("table 4", Outcome.COMES_OUT, f"{TABLE} 0.139 to 2.2 in all", quick=True),
    Printed("table 5", Outcome.COMES_OUT, f"{TABLE} 4.74 to 99.2 in all", quick=True),
    Printed("table 6", Outcome.COMES_OUT, f"{TABLE} 0.139 to 2.2 in all; the one place is here", quick=True),
    Printed("figure 5", Outcome.COMES_OUT, "accuracy rises with ε, alone and together alike"),
    Printed("figure 6", Outcome.COMES_OUT, "accuracy rises with ε, alone and together alike"),
    Printed("figure 7", Outcome.DIFFERS, "digits show in weights less their start, not in weights from a random start"),
    Printed("figure 8", Outcome.DIFFERS, "as figure 7, under noise"),
    Printed("figure 9", Outcome.DIFFERS, "as figure 7, the clearer the larger ε is"),
)
