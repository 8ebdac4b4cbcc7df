"""What Z prints, figure by figure and table by table, and what compares it with a run."""

from parley_lab.papers.printed import Outcome, Printed, pictures

CURVE_NOTE = "as drawn: in one coordinate; spread: over many, the low end of what a vector costs"
SAMPLED_NOTE = f"{CURVE_NOTE}; Z samples under add/remove, ours is replace-one"
KEPT_RUNS_NOTE = "accuracies: kept runs, 10 of each row on all images"
UNIT_NOTE = "a record is the unit here; Z bounds a client's whole update"
SERIES_NOTE = "Z's step and momentum, then longer ones"


def _curves(*words: str, note: str = CURVE_NOTE) -> tuple[Printed, ...]:
    return tuple(Printed(f"figure {word}", note, compare="comparisons:privacy") for word in words)


def _exact(word: str, compare: str, note: str = "") -> Printed:
    """A figure that takes a second, and that a test computes again."""
    return Printed(f"figure {word}", note, compare=f"comparisons:{compare}", quick=True)


PRINTED = (
    *pictures({"figure 2.1": "a query with noise"}),
    _exact("2.2", "beliefs"),
    *pictures({"figure 3.1": "stable densities", "figure 3.2": "an integrand", "figure 3.3": "two bell curves"}),
    _exact("3.4", "losses"),
    _exact("3.5", "scales"),
    _exact("3.6", "pure", "in all coordinates ε is κ/scale: no logarithm where noise is small"),
    _exact("3.7", "small_scales", "the printed approximation for small scales is too large by ln 2"),
    _exact("3.8", "gamma"),
    Printed(
        "table 3.1",
        "",
        "E|noise| by α",
        "--figure table-3.1",
        "comparisons:distortions",
        ("table-3.1",),
        quick=True,
    ),
    *_curves("4.1"),
    *pictures({"figure 4.2": "digits"}),
    Printed(
        "table 4.1",
        f"{KEPT_RUNS_NOTE}; training differs before any noise, so accuracies do not tell why rows differ",
        compare="comparisons:networks",
    ),
    Printed(
        "table 4.2",
        KEPT_RUNS_NOTE,
        "what α = 1.999 adds to that",
        "--table 4.1",
        "comparisons:advantage",
        ("table-4.1",),
    ),
    *pictures({"figure 4.3": "pictures of ten kinds"}),
    Printed(
        "table 4.3",
        "CIFAR-10 is not at hand: ε alone",
        compare="comparisons:networks",
        without=Outcome.NO_DATA,
    ),
    Printed(
        "table 4.4",
        "follows from table 4.3",
        "what α = 1.999 adds to that",
        "--table 4.3",
        without=Outcome.NO_DATA,
    ),
    *pictures({"figure 4.4": "chest X-rays"}),
    Printed(
        "table 4.5",
        "the X-rays are at hand in 28 x 28 pixels only: ε alone",
        compare="comparisons:networks",
        without=Outcome.NO_DATA,
    ),
    Printed(
        "table 4.6",
        "follows from table 4.5",
        "what α = 1.999 adds to that",
        "--table 4.5",
        without=Outcome.NO_DATA,
    ),
    Printed(
        "figure 4.5",
        "CIFAR-10 is not at hand: accuracies are Z's",
        compare="comparisons:trained",
        without=Outcome.NO_DATA,
    ),
    *_curves("4.6", note=SAMPLED_NOTE),
    *_curves("4.7", "4.8", "4.9"),
    *_curves("4.10", "4.11", note=SAMPLED_NOTE),
    Printed("figure 4.12", "accuracies are Z's; ε of the printed scales", compare="comparisons:trained"),
    *pictures(
        {
            "figure 5.1": "a star of clients",
            "figure 5.2": "federated learning",
            "figure 6.1": "a cartoon",
            "figure 6.2": "a hyperplane",
        }
    ),
    Printed("figure 6.3", "draws equation 6.21", without=Outcome.PICTURE),
    Printed("figure 6.4", SERIES_NOTE, compare="comparisons:descent"),
    Printed("figure 6.5", SERIES_NOTE, compare="comparisons:descent"),
    Printed("figure 6.6", "ours are other attacks than Z's descent", compare="comparisons:recovered"),
    Printed("figure 6.7", "Z's noise states no ε; ours does", compare="comparisons:protected"),
    *pictures({"figure 8.1": "two Gaussians"}),
    Printed("figure 8.2", compare="comparisons:accuracies"),
    Printed("figure 8.3", UNIT_NOTE, compare="comparisons:accuracies"),
    *pictures({"figure 8.4": "irises"}),
    *(Printed(f"figure {word}", UNIT_NOTE, compare="comparisons:accuracies") for word in ("8.5", "8.6", "8.7", "8.8")),
    _exact("9.1", "feedback", "equation 9.81 prints 1.70 where its A and B give 1.97"),
)
