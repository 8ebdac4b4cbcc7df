"""Every module of both packages loads, warnings being errors: those without an example in them, too."""

import pkgutil
from importlib import import_module

import parley
import parley_lab
from parley.report.extras import _EXTRAS


def lacks(name):
    """The library that this module needs and that is not installed, or None."""
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        return (error.name or "").partition(".")[0]
    return None


def test_every_module_loads_unless_its_extra_is_not_installed():
    found = [
        module.name
        for package in (parley, parley_lab)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if module.name != "parley.__main__"
    ]
    assert len(found) > 400
    assert {name: lacks(name) for name in found if lacks(name) not in (None, *_EXTRAS)} == {}
