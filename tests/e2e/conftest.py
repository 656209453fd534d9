"""A stack for each test that breaks one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.stack.supervisor import Stack
from tests.running import running_stack


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with running_stack(tmp_path) as started:
        yield started
