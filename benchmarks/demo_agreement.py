"""Is the demo's forecast right, owner by owner? Forty credit unions whose laws, tables and noise are drawn anew with
every seed.

Right means: forecast and outcome are on the same side of what joining costs.
- Forecast: the mean gain that `parley forecast` prints, from 300 public loans of a neighbouring country and the numbers
  of rows.
- Outcome: what the personal model, made of the trained joint model and the owner's own rows, saves against the owner's
  model alone, on 10,000 loans of the owner's own law that nobody has seen. Held-out rows, 30 to 400 of them, tell
  little about a gain of a few percent.
- Cost: the owner's privacy cost over its value, as its terms say: 3 cents a loan, about 0.6 % of the error.

Beside it: the same where joining costs nothing (does it gain at all), a gain counting from 0.5 % of the error
alone on; and the better of the two constant answers, all or none.

    python benchmarks/demo_agreement.py [--seeds 20] [--first 0] [--noise one|own]
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from parley.demo.folder import OWN_NOISE_FILE, SHARED_NOISE_FILE, write_unions
from parley.learning.outcome.verdict import LEAST_GAIN
from parley.report.words.joined import Chapter
from parley.workflows.demo import foresee, learn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--noise", choices=["one", "own"], default="one")
    asked = parser.parse_args()
    file = SHARED_NOISE_FILE if asked.noise == "one" else OWN_NOISE_FILE
    print(
        "seed  right  constant | gains at all: right  constant | within forecast's ends | saved, forecast, outcome | "
        "seconds"
    )
    rows = []
    for seed in range(asked.first, asked.first + asked.seeds):
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            unions = write_unions(Path(folder), seed)
            (chapter,) = learn([foresee(Path(folder) / file)], unions, seed)
        rows.append(
            [chapter.right, chapter.constant, *at_all(chapter), inside(chapter), chapter.foreseen, chapter.saved]
        )
        print(f"{seed:4}  {line(rows[-1])} | {time.perf_counter() - began:7.1f}", flush=True)
    count = len(chapter.owners)
    print(f"mean  {line(np.mean(rows, axis=0))}")
    print(
        f"\nThe forecast is right for {np.mean([row[0] for row in rows]):.1f} of {count} owners on average over "
        f"{len(rows)} seeds (least {min(row[0] for row in rows)}, most {max(row[0] for row in rows)})."
    )


def at_all(chapter: Chapter) -> tuple[int, int]:
    """How often the forecast and the better constant answer are right about gaining anything at all."""
    gains = [owner.gain > LEAST_GAIN * owner.alone for owner in chapter.owners]
    said = [owner.foreseen.mean > LEAST_GAIN * owner.foreseen_alone for owner in chapter.owners]
    return sum(a == b for a, b in zip(gains, said, strict=True)), max(sum(gains), len(gains) - sum(gains))


def inside(chapter: Chapter) -> int:
    """For how many owners the outcome lies between the ends of the forecast, in shares of the error alone."""
    return sum(
        owner.foreseen.low / owner.foreseen_alone
        <= owner.gain / owner.alone
        <= owner.foreseen.high / owner.foreseen_alone
        for owner in chapter.owners
    )


def line(row: "list[float] | np.ndarray") -> str:
    right, constant, gains, same, ends, foreseen, saved = row
    return f"{right:5.1f}  {constant:8.1f} | {gains:19.1f}  {same:8.1f} | {ends:22.1f} | {foreseen:15.2%}  {saved:7.2%}"


if __name__ == "__main__":
    main()
