import subprocess
import sys


def test_who_looks_at_books_does_not_wait_for_statistics_libraries():
    code = (
        "import sys, parley.owner.ledger, parley.cli.owner_ledger\n"
        "print(sorted({'sklearn', 'scipy', 'pandas', 'dp_accounting', 'pyarrow'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
