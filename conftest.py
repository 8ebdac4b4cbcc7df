"""Modules whose extra is not installed are left out; any other import that fails is an error, never a test file skipped in silence."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("flwr") else ["src/parley/exchange/flower.py", "src/parley/learning/over_flower.py"]
