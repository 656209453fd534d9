"""One identity: it speaks the agents' protocol over HTTP, from an address of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
import jwt

from kernelzoo.errors import StackError
from services.gateway.wire.denials import FailureReport
from services.gateway.wire.leases import BallotRequest, Lease, LeaseReport, LeaseRequest
from services.gateway.wire.model import WireModel
from services.gateway.wire.sessions import SessionRequest, SessionResponse

TIMEOUT_S = 300
"""Nobody waits, and a busy machine may leave a gateway without its processor for long."""
TRIES = 10
"""A gateway that answers 503 so often fails."""
LIMIT = 8
"""Candidates that a browser's agent asks for, too."""


@dataclass(frozen=True, slots=True)
class Stranger:
    """Raises StackError when the gateway fails; what it refuses is an answer. `kept`: what opens
    another session of this identity.
    """

    http: httpx2.AsyncClient = field(repr=False)
    device_class: str
    identity: str
    kept: str = field(repr=False)
    token: str = field(repr=False)

    async def lease(self, wait_s: float) -> Lease | None:
        """Comes back when it is told to: an attacker's identity visits many classes at a time, and
        only so many requests for a lease of one identity may wait.
        """
        request = LeaseRequest(limit=LIMIT, wait_s=wait_s)
        path, refused_s = "/v1/leases", 0.0
        answer = await _send(self.http, "POST", path, request, self.token)
        while answer.status_code == httpx2.codes.TOO_MANY_REQUESTS:
            if refused_s > TIMEOUT_S:
                raise StackError(f"the gateway refuses a lease for {refused_s:.0f} s")
            again_s = float(answer.headers["Retry-After"])
            await asyncio.sleep(again_s)
            refused_s += again_s
            answer = await _send(self.http, "POST", path, request, self.token)
        if answer.status_code == httpx2.codes.NO_CONTENT:
            return None
        return Lease.model_validate_json(answer.content)

    async def report(self, lease: Lease, report: LeaseReport) -> None:
        path = f"/v1/leases/{lease.lease}/measurements"
        await _send(self.http, "POST", path, report, self.token)

    async def fail(self, failure: FailureReport) -> None:
        await _send(self.http, "POST", "/v1/failures", failure)

    async def vote(self, ballot: BallotRequest) -> None:
        await _send(self.http, "PUT", "/v1/ballots", ballot, self.token)


@asynccontextmanager
async def stranger(
    url: str, address: str, session: SessionRequest
) -> AsyncIterator[Stranger | None]:
    """`address`: the loopback address that it comes from. None where it is turned away."""
    transport = httpx2.AsyncHTTPTransport(local_address=address)
    async with httpx2.AsyncClient(base_url=url, transport=transport, timeout=TIMEOUT_S) as http:
        answer = await _send(http, "POST", "/v1/sessions", session)
        if answer.status_code == httpx2.codes.TOO_MANY_REQUESTS:
            yield None
            return
        opened = SessionResponse.model_validate_json(answer.content)
        # Its id is no secret of the token's: a simulation only wants to know who is who.
        claims = jwt.decode(opened.identity, options={"verify_signature": False})
        yield Stranger(
            http=http,
            device_class=opened.device_class,
            identity=claims["sub"],
            kept=opened.identity,
            token=opened.token,
        )


async def _send(
    http: httpx2.AsyncClient, method: str, path: str, body: WireModel, token: str = ""
) -> httpx2.Response:
    """Comes back, as an agent does, where the database of a busy machine took too long and the
    gateway says when to ask again."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = http.build_request(method, path, json=body.model_dump(mode="json"), headers=headers)
    for _ in range(TRIES):
        answer = await _sent(http, request)
        if answer.status_code != httpx2.codes.SERVICE_UNAVAILABLE:
            break
        await asyncio.sleep(float(answer.headers.get("Retry-After", 0)))
    if answer.is_server_error:
        raise StackError(f"the gateway fails with status {answer.status_code} at {method} {path}")
    return answer


async def _sent(http: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
    """Asks again where the gateway just closed the connection, which it does after 5 s without a
    request; browsers do so, too. On a busy machine a visitor reads an answer so late.
    """
    try:
        return await http.send(request)
    except (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError):
        return await http.send(request)
