from types import SimpleNamespace

import pytest
from matplotlib.collections import PathCollection

from parley.decisions.outlook.outlook import Interval
from parley.learning.outcome.verdict import Estimate
from parley.report.figures.owner_gains import joined_owners
from parley.report.words.joined import (
    Chapter,
    Joined,
    bargain,
    forecast_rows,
    forecast_sentence,
    large_owners_sentence,
    on_held_out,
    outcome_rows,
    owners_by_size,
    verdict,
    without_anybody,
)


def owner(name, records, foreseen, gain, price=0.05, held_out=(0.0, -1.0, 1.0)):
    return Joined(
        name,
        records,
        price,
        Interval(foreseen, foreseen / 2, 2 * foreseen),
        5.0,
        Estimate(*held_out),
        4.0,
        gain,
        gain / 2,
    )


RIGHT, MISSED, CRIED, QUIET = (
    owner("gains", 200, 0.4, 0.8, held_out=(0.5, 0.1, 0.9)),
    owner("surprise", 500, 0.02, 0.2, held_out=(-0.1, -1.0, 0.8)),
    owner("promised", 900, 0.1, 0.01, held_out=(-0.5, -0.9, -0.1)),
    owner("large", 20_000, 0.001, 0.0),
)
STORY = Chapter(None, None, (QUIET, RIGHT, MISSED, CRIED))


def test_right_means_the_same_side_of_the_price():
    assert [each.right for each in (RIGHT, MISSED, CRIED, QUIET)] == [True, False, False, True]
    assert (STORY.paying, STORY.forecast_to_pay, STORY.right, STORY.constant) == (2, 2, 2, 2)
    assert STORY.saved == pytest.approx((0.8 + 0.2 + 0.01) / 4.0 / 4)
    assert STORY.foreseen == pytest.approx((0.4 + 0.02 + 0.1 + 0.001) / 5.0 / 4)


def test_sentences_say_what_the_numbers_say():
    said = verdict(STORY, "one noise")
    assert "worth its price for 2 of 4 owners (forecast: 2)" in said
    assert "right for 2 of 4 owners" in said
    assert "for 1 of 4 owners (significantly for 1) and is significantly worse for 1" in on_held_out(STORY)
    assert (
        "saves 3.2% of the error on average. The public model saves more than the price of joining for 2 of 4"
        in without_anybody(STORY)
    )
    assert "need no joint model" in large_owners_sentence(Chapter(None, None, (QUIET,)))
    assert "need no joint model" not in large_owners_sentence(Chapter(None, None, (RIGHT, QUIET)))


def test_a_table_goes_from_the_smallest_to_the_largest():
    many = [owner(f"u-{n}", 100 + n, 0.1, 0.1) for n in range(40)][::-1]
    shown = owners_by_size(many)
    assert (shown[0].name, shown[-1].name, len(shown)) == ("u-0", "u-39", 9)
    rows = outcome_rows(STORY, STORY)
    assert [row[0] for row in rows[1:]] == ["gains", "surprise", "promised", "large"]
    assert [row[-1] for row in rows[1:]] == ["yes", "no", "no", "yes"]
    assert rows[1][2:4] == ["8.0%", "20.0%"]


def test_a_forecast_says_for_how_many_joining_is_worth_its_price_and_of_how_many_it_is_sure():
    said = [("small", 200, 0.4, "join"), ("middle", 900, 0.06, "unsure"), ("large", 20_000, 0.001, "stay")]
    expected = SimpleNamespace(
        terms=SimpleNamespace(owners=[SimpleNamespace(name=name, records=rows) for name, rows, _, _ in said]),
        owners=[
            SimpleNamespace(gain=Interval(gain, gain / 2, gain), alone=5.0, verdict=advice)
            for _, _, gain, advice in said
        ],
    )
    sentence = forecast_sentence(expected, [0.05] * 3)
    assert "worth its price for 2 of 3 owners. For large, with 20,000 rows, joining is not" in sentence
    assert "The verdict is join for 1 owner, unsure for 1 and stay for 1." in sentence
    rows = forecast_rows(expected, [0.05] * 3)
    assert [row[-1] for row in rows[1:]] == ["yes", "yes", "no"]
    assert rows[1][2:4] == ["8.0%", "4.0% to 8.0%"]


def deal(names, members, payment=0.0, spend=0.0, target=None, unit="record"):
    owners = [
        SimpleNamespace(
            name=name, participates=name in members, epsilon=0.2, payment=payment if name == "large" else 0.0
        )
        for name in names
    ]
    terms = SimpleNamespace(privacy=SimpleNamespace(unit=unit))
    return SimpleNamespace(owners=owners, target=target, deal=SimpleNamespace(spend=spend), terms=terms)


def test_a_bargain_says_who_stays_out_and_what_brings_it_in():
    names = ["gains", "surprise", "large"]
    free, nobody = deal(names, ["gains", "surprise"]), deal(names, [])
    paid = deal(names, names, payment=435.0, spend=462.0, target=0.005)
    said = " ".join(bargain(free, paid, "large"))
    assert "2 of 3 owners join, but not large" in said
    assert "3 of 3 owners join at ε = 0.2 (replace-one)" in said
    assert "(replace-one-owner)" in " ".join(bargain(free, deal(names, names, unit="owner"), "large"))
    assert "The contracts cost $462, of which large receives $435" in said
    assert "no coalition is stable" in bargain(nobody, paid, "large")[0]
    assert "still does not join" in bargain(nobody, free, "large")[1]


def test_the_picture_has_a_dot_for_each_owner_and_a_ring_where_the_forecast_was_wrong():
    large = Chapter(None, None, (QUIET, QUIET, QUIET))
    figure = joined_owners([("one", STORY), ("own", STORY)], "Title", large)
    left, _, narrow = figure.axes
    dots = [each for each in left.collections if isinstance(each, PathCollection)]
    sizes = [float(each.get_sizes()[0]) for each in dots]
    rings = [each for each, size in zip(dots, sizes, strict=True) if size == max(sizes)]
    assert sorted(float(ring.get_offsets()[0][0]) for ring in rings) == [500, 900]
    assert len(dots) - len(rings) == 4
    heights = {float(each.get_offsets()[0][0]): float(each.get_offsets()[0][1]) for each in dots}
    assert heights[200] == pytest.approx(0.2)
    assert sum(isinstance(each, PathCollection) for each in narrow.collections) == 3
    low, high = left.get_ylim()
    assert low < 0.0 < 0.2 < high
