"""Other instructions of this processor: with each what proofs take for granted of arithmetic and the search over secret
draws; some tests once more, with another BLAS kernel and without NumPy's faster loops: nothing hangs on one machine's
last bits.

The whole suite passes so, too: OPENBLAS_CORETYPE=NEOVERSEN1 NPY_DISABLE_CPU_FEATURES="ASIMDHP ASIMDDP" pytest (on
x86-64: Prescott, Haswell, SkylakeX; `numpy.show_runtime()` lists the features).
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import premises
import pytest
from kernels import INSTRUCTIONS, environment, several_kernels

from parley.audit.agreement import kernel_setting, plain_loops

ROOT = Path(__file__).parents[1]
# Files written on another machine; closed forms and bounds to the last digits; linear algebra that is pinned, compared,
# or resumed.
SOME = (
    "tests/test_written_before.py",
    "tests/protocol/test_setup.py",
    "tests/data/test_pinned.py",
    "tests/data/test_whitening.py",
    "tests/learning/test_study_grid.py::test_a_grid_gives_what_each_run_gives_alone",  # others start processes
    "tests/learning/algorithms/test_step.py",
    "tests/losses/objectives/test_margin.py",
    "tests/tasks/dynamics/reservoir/test_nodes.py",
    "src/parley/losses",
    "src/parley/tasks/dynamics",
)

# Two programs in one process: to start it takes as long as either.
BOTH = """
import runpy, sys
premises, *draws = sys.argv[1:]
runpy.run_path(premises, run_name="__main__")
sys.argv = draws
runpy.run_path(draws[0], run_name="__main__")
"""


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
def test_arithmetic_is_as_the_proofs_say_and_no_draw_breaks_a_sensitivity(instructions):
    """Every BLAS kernel that this processor executes, and NumPy without its own features, in a process of its own."""
    draws = [str(ROOT / "benchmarks" / "draws.py"), "--here", "--settings", "18"]
    ran = subprocess.run(
        [sys.executable, "-c", BOTH, premises.__file__, *draws],
        env=os.environ | environment(instructions),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(ran.stdout)
    assert (found["settings"], found["violations"]) == (18, 0)


def test_some_tests_pass_with_another_kernel():
    other = several_kernels()[1]
    mine = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-x", *SOME]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env={**mine, **kernel_setting(other.name), **plain_loops()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"with {other.name}:\n{ran.stdout[-3000:]}{ran.stderr[-1000:]}"
    assert " passed" in ran.stdout
