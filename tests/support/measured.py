"""What `parley reproduce pejo2018 --figure 5 --json` prints, with gains by hand."""


def measured_gains(gain=lambda own, other: 2.0 - own - other):
    levels = (0.0, 0.2, 0.4, 0.6)
    points = []
    for own in levels:
        for other in levels:
            gains = [gain(own, other) + 0.01 * split for split in range(3)]
            points.append(
                {
                    "mechanism": "bounded",
                    "hides": "a rating's value",
                    "p": own,
                    "p_other": other,
                    "player": 1,
                    "ratio": "1:1",
                    "epsilon": 1 / own - 1 if own else None,
                    "epsilon_named": 1 / own - 1 if own else None,
                    "baseline": 1.0,
                    "alone": 0.9,
                    "together": 0.88,
                    "together_walked": 0.88,
                    "together_solved": 0.88,
                    "improvement": gains[1],
                    "error": 0.006,
                    "improvements": gains,
                }
            )
    return {"figure": 5, "splits": 3, "counts": {"ratings": 10, "users": 4, "items": 5}, "points": points}
