"""Ports for exporters under test."""

import pytest

from cli.stack import ports


@pytest.fixture
def free_port() -> int:
    return ports.free_port()
