"""`benchmarks/draws.py`, for tests: its search over secret draws, and the kernels that this processor executes."""

import importlib.util
import sys
from pathlib import Path

_path = Path(__file__).parents[2] / "benchmarks" / "draws.py"
_spec = importlib.util.spec_from_file_location("draws_benchmark", _path)
SEARCH = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = SEARCH
_spec.loader.exec_module(SEARCH)
