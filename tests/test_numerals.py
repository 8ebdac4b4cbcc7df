from hypothesis import given
from hypothesis import strategies as st

from parley.decisions.knowledge.baselines import Baselines
from parley.numerals import counted, interval_text, number
from parley.report.words import forecast

values = st.floats(-1e6, 1e6, allow_subnormal=False)


def read(text):
    return float(text.replace(",", ""))


@given(st.tuples(values, values, values).map(sorted), st.sampled_from([(4, 4), (5, 3), (2, 2)]))
def test_an_interval_holds_its_centre_as_they_are_printed(ordered, digits):
    low, centre, high = ordered
    printed = interval_text(low, high, digits[1]).split(" to ")
    assert read(printed[0]) <= read(number(centre, digits[0])) <= read(printed[1])


def test_the_forecast_s_interval_holds_what_is_expected():
    class Worth:
        together, baselines = 1.12968, Baselines(2.0, None)

    class Interval:
        low, high = 1.12961, 1.1362

    assert "1.1297 (1.12 to 1.14) for the joint model" in forecast.baseline_line(Worth, Interval)


def test_one_of_something_is_no_plural():
    assert counted(1, "round") == "1 round"
    assert counted(0, "round") == "0 rounds"
    assert counted(1200, "entry", "entries") == "1,200 entries"
