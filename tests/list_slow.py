"""Write tests/slow.txt: the tests that `make test` leaves to `make test-all`, by measured seconds.

    make test-all PYTEST_ADDOPTS=--junitxml=times.xml
    python tests/list_slow.py times.xml

The slowest test functions are slow, as many as leave `SHARE` of all seconds to the others; the quickest of a folder
never is.
"""

import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

SHARE = 0.16  # of all seconds: what two quiet cores do in four minutes


def main() -> None:
    seconds = defaultdict[str, float](float)
    for case in ElementTree.parse(sys.argv[1]).iter("testcase"):
        file = case.attrib["classname"].replace(".", "/") + ".py"
        seconds[f"{file}::{case.attrib['name'].partition('[')[0]}"] += float(case.attrib["time"])
    quickest = {str(Path(name.partition("::")[0]).parent): name for name in sorted(seconds, key=lambda n: -seconds[n])}
    left, slow = sum(seconds.values()), list[str]()
    for name in sorted(seconds, key=lambda name: -seconds[name]):
        if left <= SHARE * sum(seconds.values()):
            break
        if name not in quickest.values():
            slow.append(name)
            left -= seconds[name]
    (Path(__file__).parent / "slow.txt").write_text("\n".join(sorted(slow)) + "\n")
    print(  # noqa: T201
        f"{len(slow)} of {len(seconds)} tests are slow; the others take {left:.0f} of {sum(seconds.values()):.0f} s"
    )


if __name__ == "__main__":
    main()
