from parley_lab.papers.pejo2018.published import best_response_rows, equilibrium_numbers, outcomes


def test_what_agrees_and_what_does_not_is_said():
    rows = {(row.where, row.quantity): row for row in [*equilibrium_numbers(), *outcomes()]}
    disagree = {quantity for (_, quantity), row in rows.items() if not row.agrees}
    assert disagree == {
        "improvement, % of player 1",
        "improvement, % of player 2",
        "payoff of player 1",
        "payoff of player 2",
        "price of privacy",
        "payoff, either player",
    }
    assert all(row.remark for row in rows.values() if not row.agrees)
    assert rows["may stay out, C/B = (5, 0.2)", "price of privacy"].agrees


def test_table_6_in_numbers():
    assert best_response_rows()[1:] == [
        ["hide", "0", "0", "1", "1"],
        ["bDP", "0.1295", "0.122", "1", "1"],
        ["uDP", "0", "1", "1", "1"],
    ]
