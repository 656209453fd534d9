"""A bundle made from somebody else's zoo, which answers with whatever it likes."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cli.bundle.collecting import collect
from cli.bundle.storing import write
from cli.gateway_client import GatewayClient
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import AdviceBasis, HitLevel
from kernelzoo.errors import InvalidInput
from kernelzoo.serving import serving
from kernelzoo.signing import Signer, new_seed
from services.gateway.wire.artifacts import Kernel
from services.gateway.wire.zoo import Advice, Manifest, ManifestEntry, ServedKernel

KEY = "add:f32:n8"
BODY = b"a kernel"
SHA256 = hashlib.sha256(BODY).hexdigest()
PLACE = f"/v1/artifacts/{SHA256}.wasm"
MODELS = "/v1/models"
SIGNER = Signer.of(new_seed())


@dataclass(slots=True)
class Zoo:
    """`url` is what its manifests say of where the kernel is; `asked` are headers by path."""

    address: str = ""
    url: str = PLACE
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def other(self) -> list[str]:
        """The paths that are neither manifests nor the list of models."""
        paths = (path for path, _ in self.asked if path != MODELS)
        return [path for path in paths if not path.startswith("/v1/zoo/")]


def manifest(device_class: str, url: str) -> bytes:
    kernel = Kernel(
        sha256=SHA256,
        url=url,
        size_bytes=len(BODY),
        abi=1,
        target=TargetKind.WASM,
        requires=[],
        tensors=[],
        scratch_bytes=0,
        range_extent=1,
        dispatches=[],
        candidate="0" * 32,
        layouts=[],
    )
    served = ServedKernel(
        tolerance=0,
        level=HitLevel.DEFAULT,
        kernel=kernel,
        fallback=kernel,
        state=None,
        version=None,
        evidence=None,
        timing=None,
        grounds=None,
    )
    entry = ManifestEntry(
        workload=KEY,
        flops=1,
        wasm=served,
        webgpu=None,
        advice=Advice(target=TargetKind.WASM, basis=AdviceBasis.NONE),
    )
    document = Manifest(
        manifest=1,
        set=KEY,
        device_classes=[device_class],
        entries=[entry],
        missing=[],
        issued_at="2026-01-01T00:00:00+00:00",
        serial=1,
        signatures=[],
    )
    return SIGNER.seal(document.model_dump_json(exclude={"signatures"}).encode())


@pytest.fixture
def zoo() -> Iterator[Zoo]:
    """It has no models. Any address that is not a manifest's answers with the kernel."""
    told = Zoo()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.asked.append((self.path, {name.lower(): v for name, v in self.headers.items()}))
            device_class = self.path.rpartition("/")[2]
            if self.path == MODELS:
                body = b'{"models": []}'
            else:
                is_manifest = self.path.startswith("/v1/zoo/")
                body = manifest(device_class, told.url) if is_manifest else BODY
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        told.address = f"http://127.0.0.1:{server.server_port}"
        yield told


CLASS = "0123456789abcdef:r1-0:wasm+simd128"


def collected(zoo: Zoo) -> dict[str, bytes]:
    keys = {"operator_key": "an operator's secret", "application_key": "an application's secret"}
    with GatewayClient(url=zoo.address, **keys) as gateway:
        return collect(gateway, KEY, ((CLASS,),))


def test_a_kernel_is_asked_for_and_written_where_its_hash_says(zoo: Zoo, tmp_path: Path) -> None:
    write(collected(zoo), tmp_path / "kernels")
    written = {file.name for file in (tmp_path / "kernels/v1/artifacts").iterdir()}
    assert written == {f"{SHA256}.wasm"}
    assert zoo.other == [PLACE]


@pytest.mark.parametrize(
    "url",
    [
        "/../../../../escaped",
        "//elsewhere.example/v1/artifacts/kernel.wasm",
        "http://elsewhere.example/kernel.wasm",
        "/etc/cron.d/kernel",
        "",
    ],
)
def test_a_kernel_that_is_said_to_lie_elsewhere_is_not_asked_for_and_nothing_is_written(
    zoo: Zoo, tmp_path: Path, url: str
) -> None:
    zoo.url = url
    with pytest.raises(InvalidInput, match="no gateway of this version"):
        write(collected(zoo), tmp_path / "kernels")
    assert list(tmp_path.iterdir()) == []
    assert zoo.other == []


def test_keys_are_not_sent_to_a_zoo_that_is_only_read(zoo: Zoo) -> None:
    collected(zoo)
    with GatewayClient(url=zoo.address, operator_key="secret") as gateway:
        for read in (gateway.entries, gateway.devices, gateway.decisions, gateway.cost_models):
            with pytest.raises(Exception, match="no kernelzoo gateway"):
                read()
    assert len(zoo.asked) > 4
    for path, headers in zoo.asked:
        assert not {"x-kernelzoo-operator", "x-kernelzoo-key"} & headers.keys(), path
