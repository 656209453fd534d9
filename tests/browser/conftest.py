"""Headless Chromium, and one stack for the tests that only look."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext

from cli.stack.supervisor import Stack
from tests.running import running_stack
from workers.fleet.chromium import launched_chromium
from workers.fleet.gpu import GpuChoice, gpu_flags


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("stack")) as started:
        yield started


@pytest.fixture(scope="module")
def browser(stack: Stack) -> Iterator[Browser]:  # noqa: ARG001
    """Closed before its stack, which ends every process below this one."""
    with launched_chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def lone_browser() -> Iterator[Browser]:
    """For tests that need no stack."""
    with launched_chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def gpu_browser() -> Iterator[Browser]:
    """Chromium on a software adapter of WebGPU."""
    with launched_chromium(*gpu_flags(GpuChoice.SOFTWARE)) as launched:
        yield launched


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A profile of its own: no cookies, no storage, no cache."""
    fresh = browser.new_context()
    yield fresh
    fresh.close()
