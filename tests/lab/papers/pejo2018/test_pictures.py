"""Pictures of learning tastes together: everything that was measured is on them."""

import pytest

from parley_lab.papers.pejo2018.pictures import LINE_STYLES, both_concerned, size_ratios, unconcerned_partner


def gained(gain, error=0.1, **facts):
    together = 0.9 * (1 - gain / 100)
    known = {"alone": 0.9, "together": together, "together_walked": together, "together_solved": together}
    return {**facts, **known, "improvement": gain, "error": error, "improvements": [gain - 0.1, gain, gain + 0.1]}


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_both_owners_have_a_gain_and_a_bar_at_every_ratio():
    points = [gained(n + k, ratio=ratio, player=n) for k, ratio in enumerate(("1:9", "1:4")) for n in (1, 2)]
    compared = [{**point, "over_means": 5.0 + point["player"], "over_means_error": 0.2} for point in points]
    means, axes = size_ratios(compared, 3).axes
    assert len(means.containers) == len(axes.containers) == 2
    assert sorted(texts(means)) == ["+6.00 %", "+6.00 %", "+7.00 %", "+7.00 %"]
    (earlier,) = size_ratios(points, 3).axes  # a run that was kept before P's own comparison was
    assert sorted(texts(earlier)) == sorted(texts(axes)) == ["+1.00 %", "+2.00 %", "+2.00 %", "+3.00 %"]
    assert "3 divisions" in size_ratios(points, 3).get_suptitle().replace("\n", " ")
    alone = [gained(1.0, error=None, ratio="1:9", player=n) for n in (1, 2)]
    assert "One division" in size_ratios(alone, 1).get_suptitle().replace("\n", " ")


def test_every_mechanism_has_its_own_look_and_its_line():
    assert len({look[:3] for look in LINE_STYLES.values()}) == len(LINE_STYLES)
    points = [gained(2 - 3 * p, mechanism=name, p=p) for name in LINE_STYLES for p in (0.0, 0.1, 0.5)]
    figure = unconcerned_partner(points, 3)
    (axes,) = figure.axes
    assert len(axes.containers) == len(LINE_STYLES)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["none", "9", "1"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [look[3] for look in LINE_STYLES.values()]


@pytest.mark.parametrize("splits", [1, 3])
def test_every_pair_of_choices_has_its_gain(splits):
    points = [
        gained(3 - own - other, mechanism=name, p=own, p_other=other)
        for name in ("hide", "updates")
        for own in (0.0, 0.5)
        for other in (0.0, 0.5)
    ]
    for point in points:
        point["improvements"] = point["improvements"][:splits]
    figure = both_concerned(points, splits)
    updates, hide = figure.axes[:2]
    # nothing runs off the picture
    assert max(map(len, figure.get_suptitle().split("\n"))) <= 12 * figure.get_figwidth()
    assert {text.split("\n")[0] for text in texts(updates)} == {"+3.0", "+2.5", "+2.0"}
    assert all(("±" in text) == (splits > 1) for text in texts(updates))
    assert [label.get_text() for label in hide.get_xticklabels()] == ["none", "50%"]
    assert [label.get_text() for label in updates.get_xticklabels()] == ["none", "1"]
