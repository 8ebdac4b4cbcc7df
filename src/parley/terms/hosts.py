"""What terms must say about the parties that draw one noise for all."""

from parley.terms.checkable import CheckableTerms


def check_hosts(terms: CheckableTerms) -> None:
    """Refuse (ValueError) noise for all without three parties to draw it, and hosts with nothing to do."""
    names = {host.name for host in terms.hosts}
    keys = [host.key for host in terms.hosts if host.key is not None]
    if len(set(keys)) < len(keys):
        raise ValueError("hosts.key|expected different keys: who holds the key of two hosts reads every answer")
    if not terms.noise.hosts and names:
        raise ValueError("hosts|expected none: they draw the noise where privacy.noise = 'shared'")
    if terms.noise.hosts and len(names) != terms.noise.hosts:
        raise ValueError(
            f"hosts|expected {terms.noise.hosts} different names beside privacy.noise = 'shared', found {len(names)}: "
            "together they draw the noise, and no single one knows it; owners may be hosts, and the learner"
        )
