"""Three hosts that keep the ends of each other's journals."""

import pytest
from journal_parties import Party

from parley.network.identity import certificate_authority


@pytest.fixture
def parties(tmp_path):
    certificate_authority.make_authority(tmp_path, "Test", 3650)
    made = [Party(tmp_path, name) for name in ("a", "b", "c")]
    yield made
    for party in made:
        party.journal.close()
