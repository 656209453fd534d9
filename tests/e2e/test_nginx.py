"""nginx by examples/proxies/nginx.conf before a zoo: what it keeps, and what it never does."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from cli.gateway_client import GatewayClient
from cli.stack.ports import LOOPBACK, free_port
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from tests.e2e.proxies import proxying
from tests.tiny_model import TINY_NAME, add, tiny_model

SAMPLE = Path(__file__).parents[2] / "examples" / "proxies" / "nginx.conf"
WORKLOAD = Workload.of("matmul", (8, 8, 8))
CLASS = "0123456789abcdef:r1-0:wasm+simd128"

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        shutil.which("nginx") is None, reason="no nginx: `apt-get install nginx-light`"
    ),
]


def _settings(folder: Path, zoo: str, port: int) -> str:
    """The sample in a whole file, without its certificate and in a folder of the test's own."""
    sample = SAMPLE.read_text()
    replaced = {
        "127.0.0.1:8787": zoo.removeprefix("http://"),
        "/var/cache/nginx/kernelzoo": str(folder / "cache"),
        "listen 443 ssl http2;": f"listen {LOOPBACK}:{port};",
    }
    for old, new in replaced.items():
        assert old in sample
        sample = sample.replace(old, new)
    sample = re.sub(r"^ *ssl_certificate.*$", "", sample, flags=re.MULTILINE)
    paths = "".join(
        f"{kind}_temp_path {folder / kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        f"pid {folder}/pid; error_log {folder}/errors; daemon off; master_process off;"
        f"events {{}} http {{ access_log off; {paths} {sample} }}"
    )


@pytest.fixture
def proxy(stack: Stack, tmp_path: Path) -> Iterator[httpx2.Client]:
    folder, port = tmp_path / "nginx", free_port()
    folder.mkdir()
    (folder / "nginx.conf").write_text(_settings(folder, stack.url, port))
    command = ("nginx", "-c", folder / "nginx.conf", "-e", folder / "errors")
    with proxying(command, port) as client:
        assert client.get("/healthz").is_success
        yield client


def _kept(proxy: httpx2.Client, path: str, **headers: str) -> list[str | None]:
    """Returns what nginx says of its cache to three that ask."""
    answers = [proxy.get(path, headers=headers) for _ in range(3)]
    assert {answer.is_success for answer in answers} == {True}, path
    return [answer.headers.get("X-Cache-Status") for answer in answers]


def test_what_every_visitor_asks_for_is_asked_of_the_zoo_once(
    stack: Stack, proxy: httpx2.Client
) -> None:
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        model = tiny_model()
        add(gateway, model)
        gateway.register(WORKLOAD, TargetKind.WASM)
    weights = next(iter(proxy.get(f"/v1/models/{TINY_NAME}").json()["plans"]))["weights"]["url"]
    paths = (
        "/v1/signing-keys",
        "/client/sdk.js",
        f"/v1/zoo/{WORKLOAD.key}/{CLASS}",
        f"/v1/models/{TINY_NAME}/{CLASS}",
    )
    for path in paths:
        assert _kept(proxy, path) == ["MISS", "HIT", "HIT"], path
    assert _kept(proxy, weights, Range="bytes=8-15") == ["MISS", "HIT", "HIT"]
    part = proxy.get(weights, headers={"Range": "bytes=8-15"})
    assert (part.status_code, part.content) == (206, model.weights[8:16])


def test_what_is_somebodys_own_is_never_kept(proxy: httpx2.Client) -> None:
    for path in ("/v1/overview", "/v1/models", "/console", "/v1/jobs"):
        assert _kept(proxy, path) == [None, None, None], path
