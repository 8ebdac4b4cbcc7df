"""P's exhibits: what each computes, with its tables and remarks. Whatever factorises ratings is loaded when it is
measured."""

from typing import Any

from parley.errors import SettingError
from parley.numerals import number
from parley.report.extras import extras
from parley_lab.papers.document import Parts, Progress, Shown, Titled
from parley_lab.papers.pejo2018 import published as section_7_3
from parley_lab.papers.pejo2018 import tables
from parley_lab.papers.pejo2018.measured_game import measured_games
from parley_lab.papers.pejo2018.private_concerns import measured_private_concerns, published_private_concerns
from parley_lab.papers.pejo2018.repeated_learning import repeated_games
from parley_lab.papers.pejo2018.settings import Settings

FIGURE_TITLES = {
    3: "Figure 3: alone and together, over ratios of users",
    4: "Figure 4: the smaller owner of 1:4, whose partner has no privacy",
    5: "Figure 5: two owners alike, each with its own p",
}


def published(bench: Settings, word: str, progress: Progress) -> Shown:
    """Section 7.3 from P's own table 5, and table 6."""
    compared = [*section_7_3.equilibrium_numbers(), *section_7_3.outcomes()]
    rows = [["case", "quantity", "published", "recomputed", "remark"]]
    for row in compared:
        remark = "" if row.agrees else row.remark
        rows.append([row.where, row.quantity, number(row.published, 5), number(row.recomputed, 5), remark])
    parts: Parts = [
        Titled("Together or Alone, section 7.3, from its own table 5", rows),
        Titled("Its table 6 at C/B = 0.5", section_7_3.best_response_rows()),
    ]
    return Shown({"rows": [{**vars(row), "agrees": row.agrees} for row in compared]}, parts)


def private_concerns(bench: Settings, word: str, progress: Progress) -> Shown:
    """P's fits where concerns are private."""
    if bench.priors is None:
        raise SettingError("--prior: expected what is known of concerns")
    found = published_private_concerns(bench.priors)
    return Shown({"private_concerns": found}, _private_parts(found))


def figure(bench: Settings, word: str, progress: Progress) -> Shown:
    """Figure 3, 4 or 5, and the games that are played on what was measured."""
    which = int(word)
    content = bench.known or {"figure": which, "points": _points(bench, which, progress)}
    points = [{**point, "published": section_7_3.published_gain(which, point)} for point in content["points"]]
    content = {**content, "points": points}
    both = " Figure 5: both owners' mean." if which == 5 else ""
    parts: Parts = [
        Titled(FIGURE_TITLES[which], tables.figure_rows(which, points)),
        f"RMSE on each owner's held-out ratings; ± is the standard error over divisions of the users.{both}",
    ]
    if which != 3:
        parts.append(
            "alone: the best of all methods, by its own ratings only; solved: the owner solves its users' factors "
            "from their own ratings in the end; the gain is that of the better. updates hide a user (δ = 1e-5), "
            "unbounded noise a rating, bounded noise its value. as P: P's own comparison, its descent together beside "
            "the same descent alone."
        )
    if which == 3:
        parts.append(
            "over means: P's own comparison, with the model before any learning (item mean plus user mean). gain: "
            "with learning alone. P printed: what P says of joint learning on MovieLens 1M at any ratio; P draws NF10, "
            f"which is not at hand ({section_7_3.JOINT_GAIN_PERCENT['NF10']:g} %)."
        )
    if which == 5:
        parts += [
            Titled("Whose p matters more: what p costs, % of error, if nobody else has any", tables.whose_rows(points)),
            "P printed: P's fit of MovieLens 1M (its table 5). P finds one's own p to matter more, by any mechanism. "
            "An owner that solves its users' factors from all their ratings in the end makes good for its own p, not "
            "for the other's.",
        ]
    if bench.game:
        games, again = measured_games(points), repeated_games(points, bench.discount)
        content = {**content, "games": games, "repeated": again}
        parts += _game_parts(games, again)
    if bench.priors is not None:
        private = measured_private_concerns(points, bench.priors, progress=progress)
        content = {**content, "private_concerns": private}
        parts += _private_parts(private)
    return bench.shown(content, parts, (points, content.get("splits", bench.splits)))


def _points(bench: Settings, which: int, progress: Progress) -> list[dict[str, Any]]:
    with extras():
        from parley.tasks.ratings.factorization import Factorization
        from parley_lab.papers.pejo2018 import measurements
    ratings = bench.ratings
    if which == 3:
        return measurements.size_ratios(ratings, bench.splits, Factorization(), progress)
    chosen = measurements.chosen_mechanisms(bench.mechanism)
    return measurements.privacy_curves(
        ratings, chosen, bench.splits, Factorization(), progress, which == 5, bench.memory
    )


def _game_parts(games: tables.Points, again: tables.Points) -> Parts:
    return [
        Titled("The game on what was measured: gains in percent, concern C/B", tables.game_rows(games)),
        "p* = 1, 1: nobody learns together; same: in which share of resamples. No fit where the quadratic misses the "
        "points.",
        Titled("Again and again: from which discount factor on the best agreement holds", tables.repeated_rows(again)),
        "Whoever departs is seen to, gains once, and nobody learns together ever after; ± is the deviation over "
        "resamples.",
        "That ratings were left out (hide) or have less noise, nobody sees from outside: there it is what would hold "
        "if it were seen.",
    ]


def _private_parts(found: tables.Points) -> Parts:
    return [
        Titled("Concerns that are private: what a player of each concern keeps to itself", tables.private_rows(found)),
        Titled("The price of privacy under the prior", tables.private_price_rows(found)),
        "price if known: the mean price if all concerns were known; on fits, the price if all had the mean concern.",
        "On P's fits everybody takes part (P section 7.3): who is too concerned keeps what it can, and may lose. On "
        "points it is out.",
    ]


def expansion(bench: Settings, word: str, progress: Progress) -> Shown:
    """Table 3: by how much unbounded DP inflates these ratings."""
    with extras():
        from parley.tasks.ratings.factorization import Factorization
        from parley_lab.papers.pejo2018 import measurements
    found = measurements.expansion(bench.ratings.counts, Factorization())
    return bench.shown(
        {"table": found},
        [Titled("Table 3: ratings made of empty cells, for every true rating", tables.table_rows(found))],
    )
