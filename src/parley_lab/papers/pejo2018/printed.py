"""What P prints, figure by figure and table by table, and what compares it with a run."""

from parley_lab.papers.printed import Printed, pictures

PRINTED = (
    *pictures({"figure 1": "central and distributed learning", "figure 2": "learning in turn", "table 1": "symbols"}),
    Printed(
        "table 2",
        "NF10 is not at hand",
        "what preprocessing leaves of the ratings",
        "--figure 3",
        "comparisons:counts",
        ("figure-3",),
    ),
    Printed(
        "figure 3",
        "ours is 2.9 to 3.2 %, P says 2.5 % of 1M; P draws NF10, not at hand",
        compare="comparisons:size_ratios",
    ),
    Printed(
        "figure 4",
        "P prints no numbers; its text has 1:4, its caption 1:3; uDP not run; P's noise is on centred ratings, which "
        "has no ε where means are common",
        compare="comparisons:unconcerned_partner",
    ),
    Printed(
        "figure 5",
        "by P's own descent; users solved at home are another method; uDP not run; P's ε = 0.6 is p = 0.625, ours 0.6",
        compare="comparisons:whose_privacy",
    ),
    Printed(
        "table 3",
        "from P's printed counts of NF10; δ and μ are not printed: fitted",
        compare="comparisons:expansion",
        quick=True,
    ),
    *pictures({"table 4": "symbols of the game"}),
    Printed(
        "table 5",
        "P's own comparison: its descent together beside its descent alone; uDP not run; at p = 0 P's "
        "three fits give 1.20, 0.91 and 1.09 % for one experiment",
        "the gain as a quadratic of both players' p",
        "--figure 5",
        "comparisons:fits",
        ("figure-5",),
    ),
    Printed(
        "table 6",
        "P's closed form beside a search",
        "the best response to the other's p",
        "",
        "comparisons:best_responses",
        ("section-7.3",),
        quick=True,
    ),
    Printed(
        "section 7.3",
        "two in the wrong order, three by a wrong sign of η1, one for its complement",
        "equilibria from table 5",
        "",
        "comparisons:equilibria",
        ("section-7.3",),
        quick=True,
    ),
)
