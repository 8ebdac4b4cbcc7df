"""How long does a pass over the ratings take, beside well-known libraries, in one run on one core?

    python benchmarks/factorization.py [--data DIR] [--peers PYTHON] [--factors 4]

Peers (scikit-surprise's SVD without biases and implicit's ALS) want other versions than ours, so they live in an
environment of their own (`pip install scikit-surprise implicit`); PYTHON is its interpreter. Without MovieLens 1M in
DIR the ratings are made up, and the table says so. Seconds are of the processor, not of the clock, and the best of
three: others may be at work. Surprise's loop is the same descent, in file order and with a start of 0.1; ALS solves
least squares for implicit counts, another method, and is named for orientation.
"""

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

import numpy as np  # noqa: E402 - after the number of threads is fixed

from parley.tasks.ratings.factorization import Factorization, prediction_errors, root_mean_square, shuffled  # noqa: E402
from parley.tasks.ratings.table import Ratings, centre, drop_rare, find_ratings  # noqa: E402
from parley_lab.papers.options import data_folder  # noqa: E402

PASSES = 20
PEERS = """
import sys, time
import numpy as np
from scipy.sparse import csr_matrix
stored, factors, passes = np.load(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
users, items, values = stored["users"], stored["items"], stored["values"]
from surprise import SVD, Dataset, Reader
import pandas as pd
frame = pd.DataFrame({"user": users, "item": items, "rating": values})
train = Dataset.load_from_df(frame, Reader(rating_scale=(-2, 2))).build_full_trainset()
def seconds(n):
    model = SVD(n_factors=factors, n_epochs=n, biased=False, lr_all=0.0075, reg_all=0.01, random_state=0)
    begin = time.process_time(); model.fit(train); return time.process_time() - begin, model
once = min(seconds(1)[0] for _ in range(3))
many, model = min((seconds(passes) for _ in range(3)), key=lambda found: found[0])
p, q = model.pu[[train.to_inner_uid(u) for u in users]], model.qi[[train.to_inner_iid(i) for i in items]]
fitted = np.einsum("nf,nf->n", p, q)
print("surprise-svd", (many - once) / (passes - 1), many, float(np.sqrt(np.mean((values - fitted) ** 2))))
try:
    from implicit.als import AlternatingLeastSquares
    matrix = csr_matrix((np.abs(values) + 0.1, (users, items)))
    def als(n):
        model = AlternatingLeastSquares(factors=factors, iterations=n, num_threads=1, use_gpu=False, random_state=0)
        begin = time.process_time(); model.fit(matrix, show_progress=False); return time.process_time() - begin
    once, many = (min(als(n) for _ in range(3)) for n in (1, passes))
    print("implicit-als", (many - once) / (passes - 1), many, "nan")
except ImportError:
    pass
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--peers", default=None)
    parser.add_argument("--factors", type=int, default=4)
    options = parser.parse_args()
    ratings, real = load(data_folder(options.data))
    print(
        f"{'MovieLens 1M' if real else 'SYNTHETIC ratings'}: {ratings.counts}, {options.factors} factors, {PASSES} "
        f"passes, one core"
    )
    rows = [ours(ratings, options.factors), *(peers(ratings, options.factors, options.peers) if options.peers else [])]
    for name, one, every, error in rows:
        print(
            f"  {name:14s} {1000 * one:8.1f} ms a pass ({one / rows[0][1]:5.2f} x ours), {every:6.2f} s for all, "
            f"training RMSE {error:.4f}"
        )


def load(folder: Path | None) -> tuple[Ratings, bool]:
    real = folder is not None and (folder / "ml1m.parquet").is_file()
    if real and folder is not None:
        kept = drop_rare(find_ratings(folder))
        return kept.with_values(centre(kept).residuals), True
    rng = np.random.default_rng(0)
    users, items, count = 6040, 3260, 1_000_000
    names = tuple(map(str, range(users))), tuple(map(str, range(items)))
    cells = rng.integers(0, users, count).astype(np.int32), rng.integers(0, items, count).astype(np.int32)
    return Ratings(*cells, np.clip(rng.normal(0, 0.9, count), -2, 2), *names), False


def ours(ratings: Ratings, factors: int) -> tuple[str, float, float, float]:
    rule = Factorization(factors=factors)
    passes: list[float] = []
    totals: list[float] = []
    for run in range(4):  # the first one compiles
        rng = np.random.default_rng(run)
        begin = time.process_time()
        mixed = shuffled(ratings, rng)
        P, Q = rule.start(len(ratings.user_names), rng), rule.start(len(ratings.item_names), rng)
        started = time.process_time()
        for _ in range(PASSES):
            rule.descend(mixed, P, Q, rng)
        ended = time.process_time()
        if run:
            passes.append((ended - started) / PASSES)
            totals.append(ended - begin)
    return "parley", min(passes), min(totals), root_mean_square(prediction_errors(ratings, P, Q))


def peers(ratings: Ratings, factors: int, interpreter: str) -> list[tuple[str, float, float, float]]:
    with tempfile.TemporaryDirectory() as folder:
        stored = Path(folder) / "ratings.npz"
        np.savez(stored, users=ratings.users, items=ratings.items, values=ratings.values)
        command = [interpreter, "-c", PEERS, str(stored), str(factors), str(PASSES)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [(line.split()[0], *map(float, line.split()[1:])) for line in said.splitlines()]  # type: ignore[misc]


if __name__ == "__main__":
    main()
