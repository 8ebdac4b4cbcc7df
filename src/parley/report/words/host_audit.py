"""What one of three hosts, or two, sees, in words: of the answers that it adds up, alone and with the learner."""

import math
from collections.abc import Sequence

from parley.audit.served.one_host import HostVerdict
from parley.privacy.adjacency import Adjacency

HOSTS = (
    "Three hosts draw one noise for all, and none of them may know it; of two each adds a whole one of its "
    "own. Each of them was given everything that one host sees, and what the learner opens; it took off the sums "
    "whatever of its own numbers left least of them. Before a sum is opened its shares must look like even dice, "
    "whatever they stand for."
)


def host_rows(verdicts: Sequence[HostVerdict]) -> list[list[str]]:
    """A table: what one answer is claimed to cost, and what each host was shown to learn of it."""
    rows = [
        [
            "one host and the learner",
            f"claimed ε ({Adjacency.REPLACE_ONE})",
            "shown: at least",
            "shares are even",
            "holds",
        ]
    ]
    for verdict in verdicts:
        shown = f"{math.floor(verdict.lower_bound * 1e3) / 1e3:.3f}"
        even = f"p = {verdict.p_value:.2g}"
        rows.append([verdict.host, f"{verdict.claimed_epsilon:.4g}", shown, even, "yes" if verdict.holds else "NO"])
    return rows
