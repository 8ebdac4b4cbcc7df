"""What terms must say about the parties that draw one noise for all."""

from parley.terms.checkable import CheckableTerms


def check_hosts(terms: CheckableTerms) -> None:
    """Refuse (ValueError) noise for all without three parties, or two, to draw it, and hosts with nothing to do."""
    names = {host.name for host in terms.hosts}
    keys = [host.key for host in terms.hosts if host.key is not None]
    if len(set(keys)) < len(keys):
        raise ValueError("hosts.key|expected different keys: who holds the key of two hosts reads every answer")
    if not terms.noise.hosts and names:
        raise ValueError("hosts|expected none: they draw the noise where privacy.noise = 'shared'")
    if terms.noise.hosts and not len(names) == len(terms.hosts) == terms.noise.hosts:
        raise ValueError(
            f"hosts|expected 3 different names beside privacy.noise = 'shared', or 2, found {len(names)}: three draw "
            "one noise together that none of them knows, of two each adds a whole one; owners may be hosts, and the "
            "learner"
        )
