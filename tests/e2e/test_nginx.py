"""nginx by examples/proxies/nginx.conf before a zoo: what it keeps, and what it never does."""

import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path

import httpx2
import pytest

from cli.gateway_client import GatewayClient
from cli.stack.ports import LOOPBACK, free_port
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.gateway.wire.leases import LeaseRequest
from tests.e2e.proxies import ScriptedGateway, proxying, scripted_gateway
from tests.running import eventually
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


@contextmanager
def nginx(folder: Path, zoo: str) -> Iterator[httpx2.Client]:
    port = free_port()
    folder.mkdir()
    (folder / "nginx.conf").write_text(_settings(folder, zoo, port))
    command = ("nginx", "-c", folder / "nginx.conf", "-e", folder / "errors")
    with proxying(command, port) as client:
        assert client.get("/healthz").is_success
        yield client


@pytest.fixture
def proxy(stack: Stack, tmp_path: Path) -> Iterator[httpx2.Client]:
    with nginx(tmp_path / "nginx", stack.url) as client:
        yield client


@pytest.fixture
def gateway() -> Iterator[ScriptedGateway]:
    """A gateway whose answers may be kept for a minute."""
    port = free_port()
    with scripted_gateway(port) as script:
        script.headers = {"Cache-Control": "max-age=60", "X-Port": str(port)}
        yield script


@pytest.fixture
def before(gateway: ScriptedGateway, tmp_path: Path) -> Iterator[httpx2.Client]:
    """nginx before the scripted gateway."""
    with nginx(tmp_path / "nginx", f"{LOOPBACK}:{gateway.headers.pop('X-Port')}") as client:
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


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/zoo/set/class", "/v1/artifacts/a.wasm", "/v1/models/a/class", "/v1/denied/class"),
        *("/v1/signing-keys", "/client/sdk.js", "/v1/blobs/a"),
    ],
)
def test_what_every_visitor_asks_for_is_kept(
    before: httpx2.Client, gateway: ScriptedGateway, path: str
) -> None:
    assert _kept(before, path) == ["MISS", "HIT", "HIT"]
    assert len(gateway.of(path)) == 1


@pytest.mark.parametrize("path", ["/v1/zoo", "/v1/models", "/v1/jobs", "/v1/results", "/"])
def test_what_others_ask_for_is_not_kept_even_where_it_might_be(
    before: httpx2.Client, gateway: ScriptedGateway, path: str
) -> None:
    assert _kept(before, path) == [None, None, None]
    assert len({each.peer for each in gateway.of(path)}) == 1, "by one connection"
    assert len(gateway.of(path)) == 3


def test_the_gateway_hears_who_asks_and_for_which_host(
    before: httpx2.Client, gateway: ScriptedGateway
) -> None:
    for path in ("/v1/jobs", "/v1/zoo/set/class", "/v1/blobs/a"):
        before.get(path, headers={"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "gopher"})
        (asked,) = gateway.of(path)
        # Of which the gateway believes the last, as it is told of one proxy.
        assert asked.headers["X-Forwarded-For"] == f"192.0.2.7, {LOOPBACK}", path
        assert asked.headers["X-Forwarded-Proto"] == "http", path
        assert asked.headers["Host"] == LOOPBACK, path


def test_of_many_who_ask_at_once_one_asks_the_gateway(
    before: httpx2.Client, gateway: ScriptedGateway
) -> None:
    path, port = "/v1/zoo/set/class", before.base_url.port
    gateway.held = path
    with ExitStack() as opened:
        asking = [
            opened.enter_context(socket.create_connection((LOOPBACK, port))) for _ in range(8)
        ]
        for each in asking:
            each.sendall(f"GET {path} HTTP/1.1\r\nHost: zoo\r\nConnection: close\r\n\r\n".encode())
        eventually(lambda: bool(gateway.of(path)), "a request at the gateway")
        # It is answered behind those that came before it.
        assert before.get("/v1/jobs").is_success
        gateway.released.set()
        answers = [_whole(each) for each in asking]
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
    assert len(gateway.of(path)) == 1


def _whole(connection: socket.socket) -> bytes:
    connection.settimeout(30)
    return b"".join(iter(lambda: connection.recv(4096), b""))


@pytest.mark.parametrize(
    ("says", "status", "body"),
    [("max-age=1", "EXPIRED", "new"), ("max-age=1, stale-while-revalidate=600", "STALE", "old")],
)
def test_an_old_answer_is_given_for_as_long_as_it_says_itself(
    before: httpx2.Client, gateway: ScriptedGateway, says: str, status: str, body: str
) -> None:
    """nginx hears of no denial: what it gives for longer may be a denied kernel."""
    path = "/v1/zoo/set/class"
    gateway.headers, gateway.body = {"Cache-Control": says}, b"old"
    assert before.get(path).text == "old"
    gateway.body = b"new"
    assert _once_too_old(before, path) == (status, body)
    eventually(lambda: before.get(path).text == "new", "the new answer")


def test_a_gateway_that_fails_is_not_covered_up_by_an_old_answer(
    before: httpx2.Client, gateway: ScriptedGateway
) -> None:
    path = "/v1/zoo/set/class"
    gateway.headers = {"Cache-Control": "max-age=1"}
    assert before.get(path).is_success
    gateway.status = HTTPStatus.SERVICE_UNAVAILABLE
    assert _once_too_old(before, path)[0] == "EXPIRED"
    assert before.get(path).status_code == HTTPStatus.SERVICE_UNAVAILABLE


def _once_too_old(proxy: httpx2.Client, path: str) -> tuple[str, str]:
    """Returns what nginx says of the first answer that is too old to be a hit, and its body."""
    found: list[tuple[str, str]] = []

    def is_old() -> bool:
        answer = proxy.get(path)
        found.append((answer.headers["X-Cache-Status"], answer.text))
        return found[-1][0] != "HIT"

    eventually(is_old, "an answer that is too old")
    return found[-1]


def test_reports_and_files_of_models_are_let_through_and_nothing_larger(
    before: httpx2.Client, gateway: ScriptedGateway
) -> None:
    report, large = b"x" * (1 << 20) + b"x", b"x" * (3 << 20)
    assert before.post("/v1/leases/1/measurements", content=report).is_success
    assert gateway.read["/v1/leases/1/measurements"] == len(report)
    assert before.post("/v1/ballots", content=large).status_code == 413
    assert gateway.of("/v1/ballots") == []
    assert before.put("/v1/blobs/a", content=large).is_success
    assert gateway.read["/v1/blobs/a"] == len(large)


def test_a_file_of_a_model_passes_while_it_is_sent(
    before: httpx2.Client, gateway: ScriptedGateway
) -> None:
    path, rest = "/v1/blobs/a", b"x" * 1000
    with socket.create_connection((LOOPBACK, before.base_url.port)) as sending:
        head = (f"PUT {path} HTTP/1.1", "Host: zoo", "Connection: close", "Content-Length: 1001")
        sending.sendall("\r\n".join((*head, "", "x")).encode())
        eventually(lambda: bool(gateway.of(path)), "the head at the gateway")
        sending.sendall(rest)
        assert _whole(sending).startswith(b"HTTP/1.1 200")
    assert gateway.read[path] == 1001


def test_nginx_waits_longer_than_agents_wait_for_work() -> None:
    (timeout_s,) = re.findall(r"proxy_read_timeout (\d+)s;", SAMPLE.read_text())
    assert int(timeout_s) > LeaseRequest.model_json_schema()["properties"]["wait_s"]["maximum"]
