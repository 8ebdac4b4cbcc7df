"""What W prints, figure by figure, and whether it comes out here."""

from parley_lab.papers.printed import Outcome, Printed, pictures

SLOPE = "on a log-log scale what noise adds falls with a slope of"
PRINTED = (
    *pictures({"figure 1": "learner and owners"}),
    Printed(
        "figure 2",
        Outcome.DIFFERS,
        "with the 38,096 loans a bank that there are, ψ at ε = 10 is 0.001, below 0.1 as published, but falls 12-fold "
        "from ε = 1 to 10 and not 100-fold: what remains without noise holds it (from 0.1 to 1 it falls 100-fold)",
        quick=True,
    ),
    Printed("figure 3", Outcome.COMES_OUT, "ψ falls with size and budget; the forecast is drawn through it"),
    Printed("figure 4", Outcome.COMES_OUT, f"{SLOPE} -2 in ε", quick=True),
    Printed("figure 5", Outcome.COMES_OUT, f"{SLOPE} -2 in the size"),
    Printed("figure 6", Outcome.COMES_OUT, "worst with small shy banks, best with large eager ones"),
    Printed(
        "figure 7",
        Outcome.COMES_OUT,
        "ψ at ε = 1 is below 0.1 with 30,000 payments a bank, as published; but even the best model detects few frauds",
        quick=True,
    ),
    Printed("figure 8", Outcome.COMES_OUT, "ψ falls with size and budget; the forecast is drawn through it"),
    Printed("figure 9", Outcome.COMES_OUT, f"{SLOPE} -2 in ε"),
    Printed("figure 10", Outcome.COMES_OUT, f"{SLOPE} -2 in the size"),
    Printed("figure 11", Outcome.COMES_OUT, "worst with small shy banks, best with large eager ones"),
)
