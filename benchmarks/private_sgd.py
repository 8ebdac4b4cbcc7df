"""Private gradient descent on 60,000 x 784 digits: how fast an epoch of clipped batches is, and what three owners reach together.

1. One epoch of softmax regression in batches of 600, every record's gradient clipped in L2 and Gaussian noise on every sum: ours, where a
   record's gradient is the product of its residual and its pixels and is never made, beside Opacus on the CPU, which makes it. Ours
   computes in double precision, Opacus in single. Timed after a first epoch, the best of `--repeats`; Opacus with rows gathered as ours
   are, and with the loader that it is usually fed by.
2. Softmax regression at (eps 1, delta 1e-5) over all steps: one owner that holds everything, three owners with a third each who add their
   own noise, and three with one noise. The settings are those of `parley reproduce aarhus2020`: all records in each of 40 steps, momentum,
   step 3, clip 1 - chosen on the last 10,000 training images in a study; between organisations a public pilot would choose them.

    python benchmarks/private_sgd.py [--part epoch|digits] [--repeats 3] [--runs 5]

Needs mnist.npz in PARLEY_DATA (default ../shared/data), else synthetic digits are used; Opacus is compared with if it is installed.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import parley
from parley.reproduce.collaborative_descent import SOFTMAX_CLIP, softmax_learning
from parley.reproduce.digits import CLASSES, PIXELS, Digits, load_digits

DATA = Path(os.environ.get("PARLEY_DATA", Path(__file__).parents[2] / "shared" / "data"))
BATCH = 600
EPSILON, DELTA, OWNERS = 1.0, 1e-5, 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=["epoch", "digits"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    digits = load_digits(DATA)
    print(f"{'MNIST' if digits.real else 'SYNTHETIC digits'}, {len(digits.images):,} x {digits.images.shape[1]}")
    if asked.part in (None, "epoch"):
        epoch(digits, asked.repeats)
    if asked.part in (None, "digits"):
        together(digits, asked.runs)


def epoch(digits: Digits, repeats: int) -> None:
    """An epoch's seconds, ours beside Opacus's."""
    ours = our_epoch(digits, repeats)
    print(f"an epoch of {len(digits.images) // BATCH} batches: ours {ours:.2f} s (noise, ledger and steps included)")
    try:
        import opacus  # noqa: F401
    except ImportError:
        print("Opacus is not installed here: nothing to compare with")
        return
    for name, theirs in opacus_epochs(digits, repeats).items():
        print(f"Opacus on the CPU, {name}: {theirs:.2f} s, {theirs / ours:.1f} times as long")


def our_epoch(digits: Digits, repeats: int) -> float:
    batches = len(digits.images) // BATCH
    learning = {"algorithm": "private-sgd", "batches": batches, "epochs": 1, "step": 1.0}
    owners, terms = digits.owners(1), terms_for([len(digits.images)], learning)
    parley.train(terms, owners, seed=0, measure=False)  # prepares the table
    return min(parley.train(terms, owners, seed=0, measure=False).seconds for _ in range(repeats))


def opacus_epochs(digits: Digits, repeats: int) -> dict[str, float]:
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    images, labels = torch.tensor(digits.images, dtype=torch.float32), torch.tensor(digits.labels.astype(np.int64))
    model: Any = torch.nn.Linear(len(PIXELS), len(CLASSES))
    model, optimiser, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        data_loader=DataLoader(TensorDataset(images, labels), batch_size=BATCH, shuffle=True),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    cost = torch.nn.CrossEntropyLoss()

    def gathered() -> Iterable[tuple[Any, Any]]:
        return ((images[rows], labels[rows]) for rows in torch.randperm(len(labels)).split(BATCH))

    def seconds(batches: Callable[[], Iterable[tuple[Any, Any]]]) -> float:
        began = time.perf_counter()
        for some, their_labels in batches():
            optimiser.zero_grad()
            cost(model(some), their_labels).backward()
            optimiser.step()
        return time.perf_counter() - began

    sources: dict[str, Callable[[], Iterable[tuple[Any, Any]]]] = {"rows gathered": gathered, "its usual loader": lambda: loader}
    seconds(gathered)
    return {name: min(seconds(batches) for _ in range(repeats)) for name, batches in sources.items()}


def together(digits: Digits, runs: int) -> None:
    """Accuracy of one owner, of three with their own noise and of three with one."""
    print(f"softmax at (eps {EPSILON:g}, delta {DELTA:g}) in all, {runs} runs: test images told right")
    each = len(digits.images) // OWNERS
    kinds = (
        ("one owner with all images", [len(digits.images)], False),
        (f"{OWNERS} owners, each its own noise", [each] * OWNERS, False),
        (f"{OWNERS} owners, one noise", [each] * OWNERS, True),
        (f"one owner with {each:,} images", [each], False),
    )
    for name, sizes, shared in kinds:
        began = time.perf_counter()
        owners = digits.owners(1 if sizes[0] == len(digits.images) else OWNERS)[: len(sizes)]
        result = parley.train(terms_for(sizes, softmax_learning(), shared), owners, runs, seed=0, measure=False)
        right = 100 * digits.accuracy(result.theta)
        spread = f" +- {right.std(ddof=1):.2f}" if runs > 1 else ""
        print(f"  {name:32} {right.mean():.2f} %{spread}  ({time.perf_counter() - began:.0f} s)", flush=True)


def terms_for(sizes: list[int], learning: dict[str, object], shared: bool = False) -> parley.Terms:
    names = [f"owner-{i + 1}" for i in range(len(sizes))]
    model = {"kind": "softmax-regression", "target": "digit", "features": list(PIXELS), "categories": {"digit": list(CLASSES)}}
    privacy = {"mechanism": "gaussian", "clip": SOFTMAX_CLIP, "delta": DELTA, **({"noise": "shared"} if shared else {})}
    return parley.Terms.from_dict(
        {
            "model": model,
            "learning": learning,
            "privacy": privacy,
            "owners": [{"name": n, "records": size, "epsilon": EPSILON} for n, size in zip(names, sizes, strict=True)],
            **({"hosts": [{"name": n} for n in names]} if shared else {}),
        }
    )


if __name__ == "__main__":
    main()
