"""How tests are collected."""

from importlib.util import find_spec

from hypothesis import settings

# Modules whose extra is not installed are left out; any other import that fails is an error, never a test file skipped
# in silence.
collect_ignore = (
    [] if find_spec("flwr") else ["src/parley/network/exchange/flower.py", "src/parley/learning/over_flower.py"]
)

settings.register_profile("parley", deadline=None)  # no test depends on how busy a machine is
settings.load_profile("parley")
