"""Varnish by examples/proxies/varnish.vcl before a zoo: what it keeps, and what it forgets."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cli.gateway_client import GatewayClient
from cli.stack.ports import LOOPBACK, free_port
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.gateway.wire.denials import DenialRequest
from tests.e2e.proxies import proxying, scripted_gateway
from tests.e2e.scripted_agent import ScriptedAgent
from tests.running import eventually, running_stack

SAMPLE = Path(__file__).parents[2] / "examples" / "proxies" / "varnish.vcl"
WORKLOAD = Workload.of("matmul", (8, 8, 8))
WITH_XKEY = any(Path("/usr/lib").glob("*/varnish/vmods/libvmod_xkey.so"))

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        shutil.which("varnishd") is None or not WITH_XKEY,
        reason="no Varnish: `apt-get install varnish varnish-modules`",
    ),
]


@pytest.fixture
def ports() -> tuple[int, int]:
    """The gateway's and Varnish's: each is told of the other's."""
    return free_port(), free_port()


@pytest.fixture
def stack(tmp_path: Path, ports: tuple[int, int]) -> Iterator[Stack]:
    gateway, varnish = ports
    told = (
        ("KERNELZOO_PURGE", "varnish"),
        ("KERNELZOO_PURGE_URL", f"http://{LOOPBACK}:{varnish}"),
    )
    with running_stack(tmp_path, port=gateway, overrides=told) as started:
        yield started


@contextmanager
def varnish(folder: Path, port: int, settings: str) -> Iterator[httpx2.Client]:
    file = folder / "zoo.vcl"
    file.write_text(settings)
    command = (
        *("varnishd", "-F", "-f", file, "-n", folder / "varnish"),
        *("-a", f"{LOOPBACK}:{port}", "-s", "malloc,64m", "-j", "none"),
    )
    with proxying(command, port) as client:
        yield client


@pytest.fixture
def proxy(stack: Stack, ports: tuple[int, int], tmp_path: Path) -> Iterator[httpx2.Client]:
    assert stack.url.endswith(str(ports[0]))
    with varnish(
        tmp_path, ports[1], _settings('.port = "8787"', f'.port = "{ports[0]}"')
    ) as client:
        yield client


def _settings(old: str, new: str) -> str:
    sample = SAMPLE.read_text()
    assert sample.count(old) == 1
    return sample.replace(old, new)


def _kernel(answer: httpx2.Response) -> dict[str, Any]:
    """Returns the kernel of the manifest's one entry. No page load may fail."""
    assert answer.is_success, answer.text
    (entry,) = answer.json()["entries"]
    kernel: dict[str, Any] = entry["wasm"]["kernel"]
    return kernel


def test_a_denied_kernel_leaves_the_cache_long_before_its_time(
    stack: Stack, proxy: httpx2.Client
) -> None:
    """Manifests may be kept for a minute, which is longer than this waits."""
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        gateway.register(WORKLOAD, TargetKind.WASM)
    agent = ScriptedAgent(url=stack.url, operator_key=stack.keys.operator)
    agent.open()
    found: list[dict[str, Any]] = []

    def confirmed() -> bool:
        found[:] = agent.confirmed_keys()
        return bool(found)

    eventually(confirmed, "a confirmed entry")
    path = f"/v1/zoo/{WORKLOAD.key}/{found[0]['device_class']}"
    before = [proxy.get(path) for _ in range(3)]
    assert [each.headers["X-Cache"] for each in before] == ["MISS", "HIT", "HIT"]
    assert "Surrogate-Key" not in before[0].headers
    denied: str = _kernel(before[0])["sha256"]
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        gateway.decide(
            DenialRequest(
                artifact=denied,
                device_class=found[0]["device_class"],
                denied=True,
                reason="it fails here",
            )
        )
    seen: list[str] = []

    def forgotten() -> bool:
        seen.append(_kernel(proxy.get(path))["sha256"])
        return seen[-1] != denied

    eventually(forgotten, "another kernel from Varnish", within_s=30)
    assert {_kernel(proxy.get(path))["sha256"] for _ in range(5)} == {seen[-1]}


def test_who_is_no_gateway_cannot_purge(tmp_path: Path) -> None:
    settings = _settings('"127.0.0.1";\n}\n\nsub', '"192.0.2.1";\n}\n\nsub')
    with varnish(tmp_path, free_port(), settings) as client:
        answer = client.request("PURGE", "/", headers={"Surrogate-Key": "zoo"})
    assert answer.status_code == 403


def test_an_old_answer_is_given_where_no_gateway_answers(
    tmp_path: Path, ports: tuple[int, int]
) -> None:
    """`stale-if-error`: past its second, and past the one in which a new one would be fetched."""
    settings = _settings('"8787"', f'"{ports[0]}"').replace("req.grace = 1m", "req.grace = 1s")
    kept = {
        "Cache-Control": "max-age=1, stale-while-revalidate=1, stale-if-error=86400",
        "Connection": "close",  # Or it answers by that one once it listens no more.
    }
    with ExitStack() as answering:
        answering.enter_context(scripted_gateway(ports[0])).headers = kept
        with varnish(tmp_path, ports[1], settings) as client:
            assert client.get("/v1/zoo/a/b").status_code == 200
            answering.close()

            def is_old() -> bool:
                answer = client.get("/v1/zoo/a/b")
                assert answer.status_code == 200
                return int(answer.headers["Age"]) > 3

            eventually(is_old, "an answer of four seconds ago")
            assert client.get("/v1/zoo/a/c").status_code == 503, "that nobody has"


def test_what_does_not_say_how_long_it_is_good_is_not_kept(
    tmp_path: Path, ports: tuple[int, int]
) -> None:
    settings = _settings('"8787"', f'"{ports[0]}"')
    path = "/v1/models/a/readiness"
    with (
        scripted_gateway(ports[0]) as gateway,
        varnish(tmp_path, ports[1], settings) as client,
    ):
        assert [client.get(path).headers["X-Cache"] for _ in range(3)] == ["MISS"] * 3
        assert len(gateway.of(path)) == 3
