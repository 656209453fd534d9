"""The pages that people read: they show what there is and ask nobody else."""

import pytest
from playwright.sync_api import BrowserContext

from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from tests.browser.browsers import watched

KEY = "matmul:f32:m8k8n8"


@pytest.fixture(scope="module", autouse=True)
def job(stack: Stack) -> None:
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        gateway.register(Workload.parse(KEY), TargetKind.WASM)


@pytest.mark.parametrize(
    ("path", "text"),
    [("/", KEY), ("/console", KEY), ("/agent", "Start"), ("/docs", "/v1/leases")],
)
def test_a_page_shows_its_content_and_asks_nobody_else(
    stack: Stack, context: BrowserContext, path: str, text: str
) -> None:
    with watched(context, stack.url) as page:
        page.goto(stack.url + path)
        page.get_by_text(text).first.wait_for()
        assert page.evaluate("crossOriginIsolated") is True
