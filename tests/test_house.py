"""The house keeps its shape: modules do not go round in circles, and doors stay thin."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("measure_house", ROOT / "docs" / "measure_house.py")
house = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(house)


def test_modules_do_not_import_each_other_in_circles():
    assert house.measured()["circles"] == 0


def test_rooms_files_and_imports_between_rooms_stay_few():
    found = house.measured()
    for measure in ("files", "rooms", "imports between rooms"):
        assert found[measure] <= house.WANTED[measure], measure


def test_a_circle_is_found():
    assert house.circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert house.circles({"a": {"b"}, "b": set()}) == []


def test_the_body_of_a_command_and_of_its_helpers_fits_a_screen():
    assert [found for found in house.bodies() if found[0] > house.WANTED["longest body"]] == []
