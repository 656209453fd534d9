"""The HTTP interface of the gateway that a command talks to, as far as the commands use it."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID

import httpx2
from pydantic import BaseModel, ValidationError

from cli.stack.place import Place, read_or_make_keys, running_stack
from kernelzoo.domain.device import Hardware
from kernelzoo.domain.precision import Precision
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput, StackError
from services.gateway.wire.applications import (
    Application,
    ApplicationList,
    ApplicationRequest,
    NewKey,
    Origins,
    OriginsChange,
)
from services.gateway.wire.artifacts import ArtifactWire
from services.gateway.wire.cost_models import CostModelList, CostModelWire, TrainingAccepted
from services.gateway.wire.denials import Decision, DecisionList, DenialRequest
from services.gateway.wire.identities import Held
from services.gateway.wire.jobs import Job, JobList, JobRequest
from services.gateway.wire.model import Problem
from services.gateway.wire.models import (
    FileWire,
    ListedModel,
    ModelCoverage,
    ModelDocument,
    ModelList,
    ModelReadiness,
    ModelRequest,
    ModelTimeline,
    Registered,
)
from services.gateway.wire.results import ClaimsAccepted, ClaimsRequest, Results, ResultsList
from services.gateway.wire.zoo import Device, DeviceList, Manifest, ZooEntry, ZooList

_Answer = TypeVar("_Answer", bound=BaseModel)
_Page = TypeVar("_Page", JobList, DeviceList)

OPERATOR_KEY = "KERNELZOO_OPERATOR_KEY"
APPLICATION_KEY = "KERNELZOO_KEY"
DEVICES_AT_ONCE = 200
JOBS_PAGE = 200
PAGE = 1000
"""Entries of the zoo at once."""
WRONG_KEY = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


@dataclass(slots=True, kw_only=True)
class GatewayClient:
    """Raises StackError when the gateway is away and InvalidInput when it refuses."""

    url: str
    operator_key: str = field(default="", repr=False)
    application_key: str = field(default="", repr=False)
    _http: httpx2.Client = field(init=False)

    def __post_init__(self) -> None:
        self._http = httpx2.Client(base_url=self.url, timeout=10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._http.close()

    def create_application(self, request: ApplicationRequest) -> NewKey:
        body = request.model_dump(mode="json")
        return self._ask(NewKey, "POST", "/v1/applications", body=body)

    def applications(self) -> tuple[Application, ...]:
        found = self._ask(ApplicationList, "GET", "/v1/applications", keyed=True)
        return tuple(found.applications)

    def rotate_application(self, name: str) -> NewKey:
        return self._ask(NewKey, "POST", f"/v1/applications/{quote(name)}/key")

    def change_origins(self, name: str, change: OriginsChange) -> tuple[str, ...]:
        """The origins that the application has then."""
        path, body = f"/v1/applications/{quote(name)}/origins", change.model_dump(mode="json")
        return tuple(self._ask(Origins, "PATCH", path, body=body).origins)

    def disable_application(self, name: str) -> None:
        self._send("POST", f"/v1/applications/{quote(name)}/disable")

    def identity(self, number: UUID) -> Held:
        """Counts what there is of an identity."""
        return self._ask(Held, "GET", f"/v1/identities/{number}", keyed=True)

    def erase_identity(self, number: UUID) -> Held:
        """Erases an identity, and returns how much there was of it."""
        return self._ask(Held, "DELETE", f"/v1/identities/{number}")

    def register(self, workload: Workload, target: TargetKind) -> Job:
        """Opens a tuning job, or finds the one that there is."""
        request = JobRequest(workload=workload.key, target=target)
        return self._ask(Job, "POST", "/v1/jobs", body=request.model_dump(mode="json"))

    def job(self, job: int) -> Job:
        return self._ask(Job, "GET", f"/v1/jobs/{job}")

    def jobs(
        self, workload_key: str | None = None, target: TargetKind | None = None
    ) -> tuple[Job, ...]:
        """Jobs of a workload and target, where they are given; oldest first. webgpu has one for
        each model of GPU that has asked for work.
        """
        of = {} if workload_key is None else {"workload": workload_key}
        pages = self._pages(JobList, "/v1/jobs", JOBS_PAGE, of, keyed=True)
        found = [job for page in pages for job in page.jobs]
        return tuple(job for job in reversed(found) if target in (None, job.target))

    def forget_lost_devices(self, workload_key: str, device_class: str) -> None:
        """Has the workload lent to the class again."""
        of = f"workload={quote(workload_key)}&device_class={quote(device_class)}"
        self._send("DELETE", f"/v1/lost-devices?{of}")

    def cancel(self, job: int) -> Job:
        return self._ask(Job, "DELETE", f"/v1/jobs/{job}")

    def entries(self, workload_key: str = "") -> tuple[ZooEntry, ...]:
        """Every live entry, of one workload or of all: page by page."""
        path = f"/v1/zoo?limit={PAGE}"
        if workload_key:
            path += f"&workload={quote(workload_key, safe=':')}"
        page = self._ask(ZooList, "GET", path)
        found = list(page.entries)
        while page.next is not None:
            page = self._ask(ZooList, "GET", f"{path}&after={page.next}")
            found += page.entries
        return tuple(found)

    def manifest(
        self, workload_key: str, *device_classes: str, hardware: Hardware | None = None
    ) -> Manifest:
        """The manifest of one class, or of the wasm and the webgpu class of one device; `hardware`
        is for one that the zoo has never seen.
        """
        path = _manifest_path(workload_key, device_classes)
        told = f"?hardware={quote(json.dumps(asdict(hardware)))}" if hardware else ""
        return self._ask(Manifest, "GET", path + told)

    def manifest_bytes(self, name: str, *device_classes: str) -> bytes:
        """Returns a manifest as it was signed."""
        return self._send("GET", _manifest_path(name, device_classes)).content

    def devices(self) -> tuple[Device, ...]:
        """All of them, the latest first."""
        pages = self._pages(DeviceList, "/v1/devices", DEVICES_AT_ONCE)
        return tuple(device for page in pages for device in page.devices)

    def decisions(self) -> tuple[Decision, ...]:
        return tuple(self._ask(DecisionList, "GET", "/v1/denied").decisions)

    def decide(self, request: DenialRequest) -> Decision:
        return self._ask(Decision, "PUT", "/v1/denied", body=request.model_dump(mode="json"))

    def results(self, workload_key: str) -> tuple[Results, ...]:
        """Reads the results of every class that measured the workload, page by page."""
        path = f"/v1/results?workload={quote(workload_key, safe=':')}"
        page = self._ask(ResultsList, "GET", path, keyed=True)
        found = list(page.results)
        while page.next is not None:
            page = self._ask(ResultsList, "GET", f"{path}&after={page.next}", keyed=True)
            found += page.results
        return tuple(found)

    def claim(self, request: ClaimsRequest) -> ClaimsAccepted:
        body = request.model_dump(mode="json")
        return self._ask(ClaimsAccepted, "POST", "/v1/evidence", body=body)

    def cost_models(self) -> tuple[CostModelWire, ...]:
        return tuple(self._ask(CostModelList, "GET", "/v1/cost-models").models)

    def train_cost_model(self) -> TrainingAccepted:
        return self._ask(TrainingAccepted, "POST", "/v1/cost-models")

    def models(self) -> tuple[ListedModel, ...]:
        return tuple(self._ask(ModelList, "GET", "/v1/models").models)

    def model(self, name: str) -> ModelDocument:
        return self._ask(ModelDocument, "GET", _model_path(name))

    def model_readiness(self, name: str) -> ModelReadiness:
        return self._ask(ModelReadiness, "GET", f"{_model_path(name)}/readiness")

    def model_coverage(self, name: str) -> ModelCoverage:
        return self._ask(ModelCoverage, "GET", f"{_model_path(name)}/coverage")

    def model_timeline(
        self, name: str, device_class: str, dimensions: Mapping[str, int], precision: Precision
    ) -> ModelTimeline:
        path = f"{_model_path(name)}/{quote(device_class, safe=':+')}/timeline"
        asked = urlencode({**dimensions, "precision": precision})
        return self._ask(ModelTimeline, "GET", f"{path}?{asked}")

    def model_manifest_bytes(
        self,
        name: str,
        device_class: str,
        dimensions: Mapping[str, int],
        precision: Precision | None = None,
    ) -> bytes:
        """Returns the manifest of a model as it was signed, of the precision that the zoo chooses
        unless told."""
        path = f"{_model_path(name)}/{quote(device_class, safe=':+')}"
        of = {} if precision is None else {"precision": precision}
        return self._send("GET", f"{path}?{urlencode({**dimensions, **of})}").content

    def register_model(self, name: str, request: ModelRequest, *, replace: bool) -> Registered:
        path = _model_path(name) + ("?replace=true" if replace else "")
        return self._ask(Registered, "PUT", path, body=request.model_dump(mode="json"))

    def remove_model(self, name: str) -> None:
        self._send("DELETE", _model_path(name))

    def has_blob(self, sha256_hex: str) -> bool:
        found = self._request(
            "GET", f"/v1/blobs/{sha256_hex}", headers={"If-None-Match": f'"{sha256_hex}"'}
        )
        return found.status_code == HTTPStatus.NOT_MODIFIED

    def put_blob(self, sha256_hex: str, size_bytes: int, pieces: Iterator[bytes]) -> None:
        headers = {**self._keys(), "Content-Length": str(size_bytes)}
        path = f"/v1/blobs/{sha256_hex}"
        self._accepted(self._request("PUT", path, headers=headers, content=pieces))

    def file(self, file: FileWire) -> bytes:
        """A file of a model, of this gateway or of its author's host. Raises StackError for bytes
        of another hash.
        """
        body = self._send("GET", file.url).content
        if file.sha256 is not None and sha256(body).hexdigest() != file.sha256:
            raise StackError(f"{file.url} does not match its hash; `models add` sends it again")
        return body

    def client_file(self, name: str) -> bytes:
        return self._send("GET", f"/client/{quote(name)}").content

    def artifact(self, kernel: ArtifactWire) -> bytes:
        """Raises StackError when the bytes are not those that the hash names."""
        path = kernel.path
        body = self._send("GET", path).content
        if sha256(body).hexdigest() != kernel.sha256:
            raise StackError(f"artifact {path} does not match its hash; publish it again")
        return body

    def _pages(
        self,
        answer: type[_Page],
        path: str,
        at_once: int,
        of: Mapping[str, str] | None = None,
        *,
        keyed: bool = False,
    ) -> Iterator[_Page]:
        """The pages of a list, of `at_once` rows each, to its end."""
        total, offset = 1, 0
        while offset < total:
            asked = urlencode({"limit": at_once, "offset": offset, **(of or {})})
            page = self._ask(answer, "GET", f"{path}?{asked}", keyed=keyed)
            yield page
            # Not by how many came: a row that the interface has no words for is left out.
            total, offset = page.total, offset + at_once

    def _ask(
        self,
        answer: type[_Answer],
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        keyed: bool = False,
    ) -> _Answer:
        response = self._send(method, path, body, keyed=keyed)
        try:
            return answer.model_validate_json(response.content)
        except ValidationError as error:
            raise StackError(
                f"{self.url}{path} is no kernelzoo gateway of this version: {error}"
            ) from error

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        keyed: bool = False,
    ) -> httpx2.Response:
        """Keys go with writes, and with the few reads that a gateway answers to their holder
        alone: a zoo that one reads from is often somebody else's.
        """
        headers = self._keys() if keyed or method != "GET" else {}
        return self._accepted(self._request(method, path, headers=headers, json=body))

    def _keys(self) -> dict[str, str]:
        keys = {
            "X-Kernelzoo-Operator": self.operator_key,
            "X-Kernelzoo-Key": self.application_key,
        }
        return {name: key for name, key in keys.items() if key}

    def _request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        json: Mapping[str, object] | None = None,
        content: Iterator[bytes] | None = None,
    ) -> httpx2.Response:
        try:
            return self._http.request(method, path, headers=headers, json=json, content=content)
        except httpx2.TransportError as error:
            raise StackError(
                f"{self.url} does not answer ({error}); start a stack with `kernelzoo up`, "
                "or name another gateway with --url"
            ) from error

    def _accepted(self, response: httpx2.Response) -> httpx2.Response:
        if response.is_error:
            raise InvalidInput(f"{self.url} refused: {_detail(response)}{_remedy(response)}")
        return response


def _model_path(name: str) -> str:
    return f"/v1/models/{quote(name, safe='')}"


def _manifest_path(name: str, device_classes: tuple[str, ...]) -> str:
    classes = "/".join(quote(each, safe=":+") for each in device_classes)
    return f"/v1/zoo/{quote(name, safe=':')}/{classes}"


def _detail(response: httpx2.Response) -> str:
    """Says in the gateway's words what went wrong; a proxy before it, or another server, has none
    that we know."""
    try:
        return Problem.model_validate_json(response.content).detail
    except ValidationError:
        return (
            f"status {response.status_code}, and not in a gateway's words; "
            "look whether a kernelzoo gateway listens there"
        )


def _remedy(response: httpx2.Response) -> str:
    """Says where a command finds the key that a header is to hold."""
    if response.status_code not in WRONG_KEY:
        return ""
    return (
        f"; set {OPERATOR_KEY} to the key that the gateway was started with, or {APPLICATION_KEY} "
        "to an application's"
    )


def reach(state: Path, url: str | None) -> GatewayClient:
    """Raises StackError, with the remedy, when no stack runs on `state` and no `url` is given,
    and InvalidInput for a `url` that is none.
    """
    if url is not None:
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(f"--url {url} lacks its scheme; write http://{url} or https://{url}")
        return GatewayClient(
            url=url.rstrip("/"),
            operator_key=os.environ.get(OPERATOR_KEY, ""),
            application_key=os.environ.get(APPLICATION_KEY, ""),
        )
    place = Place.at(state)
    record = running_stack(place)
    return GatewayClient(url=record.url, operator_key=read_or_make_keys(place).operator)
