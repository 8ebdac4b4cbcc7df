"""What tests of databases share: one server for all of them."""

import pytest
from databases import postgres_server


@pytest.fixture(scope="session")
def postgres():
    with postgres_server() as server:
        yield server
