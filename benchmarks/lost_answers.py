"""What lost answers cost: the demo's forty owners, each of whose answers arrives with one probability.

For every probability, with each owner's own noise and with one noise for all: how many owners a round hears, the
forecast psi with the owners that are expected to gain and their mean gain, and the mean psi of simulated runs on the
demo's own tables, whose owners differ. Epsilon is spent in full at any probability.

    python benchmarks/lost_answers.py
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import parley
from parley.demo.folder import OWN_NOISE_FILE, SHARED_NOISE_FILE, write_unions
from parley.learning.owners import open_owners
from parley.terms import Terms

PROBABILITIES = 1.0, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3
RUNS, DEMO_SEED, UNIONS = 200, 7, 39


def lossy(terms: Terms, probability: float, quorum: int) -> Terms:
    """The same terms if every owner's answers arrive with this probability."""
    rounds = {"straggler": "skip", "quorum": quorum}
    return terms.changed(learning=rounds, everyone={"availability": probability})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--quorum", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_unions(Path(folder), DEMO_SEED, UNIONS)
        for file in (OWN_NOISE_FILE, SHARED_NOISE_FILE):
            agreed = parley.load_terms(Path(folder) / file)
            print(f"\n{agreed.title}\n")
            print("| arrives | owners heard | forecast ψ | expect to gain | mean gain | simulated ψ |")
            print("|---|---|---|---|---|---|")
            for probability in PROBABILITIES:
                terms = lossy(agreed, probability, arguments.quorum)
                found = parley.forecast(terms)
                rounds = found.expected.pilot.lossy_rounds
                heard = len(terms.owners) if rounds is None else rounds.moments.answers
                gains = np.array([owner.gain.mean for owner in found.owners])
                alone = float(np.mean([owner.alone for owner in found.owners]))
                run = parley.train(terms, open_owners(terms), arguments.runs, seed=1, whole_path=False)
                psi = run.path[-1]
                print(
                    f"| {probability:g} | {heard:.1f} | {found.relative_fitness.mean:.3g} | {(gains > 0).sum()} of "
                    f"{len(gains)} | {gains.mean() / alone:.2%} | {psi.mean():.3g} ± "
                    f"{psi.std() / len(psi) ** 0.5:.1g} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
