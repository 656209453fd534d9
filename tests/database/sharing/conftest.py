"""A space that agents of one device class share."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from fixtures.rows import compile_row
from kernelzoo.settings import Settings
from services.gateway.app import application
from tests.database.conftest import Connection, open_space
from tests.database.sharing.space import SPACE


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """All agents are one's own: each candidate needs one measurement."""
    return settings.model_copy(update={"max_malicious_share": 0.0})


@pytest.fixture
def strangers(settings: Settings) -> Iterator[TestClient]:
    app = application(settings.model_copy(update={"max_malicious_share": 0.2}))
    with TestClient(app, client=("127.0.0.1", 5000)) as client:
        yield client


@pytest.fixture(autouse=True)
def job(db: Connection) -> int:
    """A planned job of 24 compiled candidates."""
    opened = open_space(db, list(SPACE))
    for candidate in SPACE:
        compile_row(db, candidate)
    return opened
