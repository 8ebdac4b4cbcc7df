"""Three hosts in one process."""

import pytest
from bundles_of_owners import SHAPE, make_assignment

from parley.network.hosting.sums import InProcessHosts


@pytest.fixture
def trio():
    made = []

    def make(folder=None, quorum=3, patience=2.0, rounds=4, shape=SHAPE):
        hosts = InProcessHosts(make_assignment(quorum, rounds, shape), folder, patience)
        made.append(hosts)
        return hosts

    yield make
    for hosts in made:
        hosts.close()
