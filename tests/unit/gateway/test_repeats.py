"""Repeats are answered without doing them again, where the answer would be the same.

Ballots of sixteen networks that came again and again held up page loads eightfold.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType, SimpleNamespace
from uuid import UUID

import pytest
from starlette.types import Message, Receive, Scope, Send

from services.gateway.filed import FiledBallots
from services.gateway.proxies import Proxies
from services.gateway.repeats import MOST_REMEMBERED, REPEATED_S, SOONEST, Repeats
from services.gateway.tokens import Tokens

REPORT = "/v1/leases/7/measurements"
ONE, OTHER = UUID(int=1), UUID(int=2)
DIRECT = Proxies.of("", 1)
LIMIT_BYTES = 1000


@dataclass
class Application:
    """Answers `status` with how many requests it was asked, once it may."""

    status: int = HTTPStatus.ACCEPTED
    asked: list[bytes] = field(default_factory=list)
    may: asyncio.Event | None = None
    fails: bool = False

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        self.asked.append((await receive())["body"])
        number = len(self.asked)
        if self.may is not None:
            await self.may.wait()
        if self.fails:
            raise ValueError("a fault")
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"[", "more_body": True})
        await send({"type": "http.response.body", "body": b"%d]" % number})


class Sessions:
    """A token is the text of the identity whose it is."""

    network = Tokens(secret="a secret", session_s=1).network

    def holder(self, token: str) -> UUID | None:
        return UUID(token) if token else None


class Gateway:
    """Repeats before an application, at a time that stands still."""

    def __init__(self, application: Application) -> None:
        self.now_s = 100.0
        self.ballots = FiledBallots()
        self.ballots.begin()
        self._repeats = Repeats(application, DIRECT, LIMIT_BYTES, lambda: self.now_s)
        wake = SimpleNamespace(ballots=self.ballots)
        kernelzoo = SimpleNamespace(wake=wake, tokens=Sessions())
        self._app = SimpleNamespace(state=SimpleNamespace(kernelzoo=kernelzoo))

    async def send(
        self,
        path: str,
        body: bytes = b"{}",
        *,
        by: UUID | None = ONE,
        address: str = "10.0.0.1",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[int, int]:
        """The status, and the number of the request whose answer was given."""
        sent: list[Message] = []
        shown = ({"authorization": f"Bearer {by}"} if by else {}) | dict(headers)

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            if "headers" in message:
                message["headers"].append((b"x-outer", b"1"))
            sent.append(message)

        await self._repeats(
            {
                "type": "http",
                "app": self._app,
                "method": "POST",
                "path": path,
                "client": (address, 1),
                "headers": [(name.encode(), value.encode()) for name, value in shown.items()],
            },
            receive,
            send,
        )
        assert len(sent[0]["headers"]) == 2, "nothing that others added is given again"
        number: list[int] = json.loads(b"".join(part.get("body", b"") for part in sent))
        return sent[0]["status"], number[0]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/ballots", 202),
        ("/v1/failures", 202),
        ("/v1/wrong-outputs", 202),
        (REPORT, 409),
        (REPORT, 410),
    ],
)
def test_the_same_again_is_answered_alike_for_seconds(path: str, status: int) -> None:
    async def attack() -> None:
        application = Application(status)
        gateway = Gateway(application)
        for _ in range(20):
            assert await gateway.send(path) == (status, 1)
        gateway.now_s += 0.9 * SOONEST * REPEATED_S
        assert await gateway.send(path) == (status, 1)
        gateway.now_s += REPEATED_S
        assert await gateway.send(path) == (status, 2), "rows may have changed since"
        assert application.asked == [b"{}"] * 2

    asyncio.run(attack())


def test_those_who_sent_theirs_together_have_it_done_anew_one_after_the_other() -> None:
    """Sixteen networks had all of theirs done anew every five seconds, while pages waited."""
    senders, steps = [UUID(int=number) for number in range(1, 101)], 10

    async def attack() -> list[int]:
        application = Application()
        gateway = Gateway(application)
        done = []
        for _ in range(steps + 1):
            before = len(application.asked)
            for sender in senders:
                await gateway.send("/v1/ballots", by=sender)
            done.append(len(application.asked) - before)
            gateway.now_s += REPEATED_S / steps
        return done

    first, *later = asyncio.run(attack())
    assert first == len(senders)
    assert sum(later) >= len(senders), "each of them once more"
    assert max(later) <= len(senders) / 2


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/ballots", 422), ("/v1/ballots", 503), (REPORT, 202), (REPORT, 429), ("/v1/leases", 202)],
)
def test_what_may_change_is_done_anew(path: str, status: int) -> None:
    """A refused ballot is taken once its measurements are there."""

    async def ask_twice() -> None:
        gateway = Gateway(Application(status))
        assert [await gateway.send(path) for _ in range(2)] == [(status, 1), (status, 2)]

    asyncio.run(ask_twice())


def test_what_differs_is_done() -> None:
    async def ask() -> None:
        gateway = Gateway(Application(409))
        sent = [
            await gateway.send(REPORT),
            await gateway.send(REPORT, b"[]"),
            await gateway.send("/v1/leases/8/measurements", b"[]"),
            await gateway.send("/v1/leases/8/measurements", b"[]", by=OTHER),
            await gateway.send(REPORT),
        ]
        assert sent == [(409, number) for number in range(1, 6)]

    asyncio.run(ask())


def test_a_body_that_is_too_long_is_for_others_to_refuse() -> None:
    async def ask_twice() -> None:
        gateway = Gateway(Application())
        body = b" " * (LIMIT_BYTES + 1)
        told = [await gateway.send("/v1/ballots", body) for _ in range(2)]
        assert told == [(202, 1), (202, 2)]

    asyncio.run(ask_twice())


def test_failures_of_one_network_are_the_same_whoever_sends_them() -> None:
    async def ask() -> None:
        gateway = Gateway(Application())
        told = [
            await gateway.send("/v1/failures", by=None, address=address)
            for address in ("10.0.0.1", "10.0.0.2", "10.0.1.1")
        ]
        assert told == [(202, 1), (202, 1), (202, 2)]

    asyncio.run(ask())


def test_a_failure_is_answered_by_its_own_network_key_and_page() -> None:
    """Also where a site has all visitors show the same, which is no token of an agent."""
    site = {"authorization": "Basic of-all-visitors"}

    async def ask() -> None:
        gateway = Gateway(Application())

        async def fail(address: str, **headers: str) -> int:
            shown = site | headers
            return (await gateway.send("/v1/failures", by=None, address=address, headers=shown))[1]

        assert await fail("10.0.0.1") == await fail("10.0.0.1") == 1
        assert await fail("10.0.1.1") == 2
        assert await fail("10.0.1.1", **{"x-kernelzoo-operator": "a key"}) == 3
        assert await fail("10.0.1.1", origin="https://shop.example") == 4

    asyncio.run(ask())


def test_who_sends_the_same_meanwhile_waits_for_the_answer() -> None:
    async def ask() -> None:
        may = asyncio.Event()
        application = Application(503, may=may)
        gateway = Gateway(application)
        first, leaving, *others = [
            asyncio.create_task(gateway.send("/v1/ballots")) for _ in range(5)
        ]
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.sleep(0)
        may.set()
        assert await asyncio.gather(first, *others) == [(503, 1)] * 4
        assert len(application.asked) == 1

    asyncio.run(ask())


def test_who_waits_for_what_fails_has_it_done() -> None:
    async def ask() -> None:
        application = Application(may=asyncio.Event(), fails=True)
        gateway = Gateway(application)
        first, second = [asyncio.create_task(gateway.send("/v1/ballots")) for _ in range(2)]
        await asyncio.sleep(0)
        assert application.may is not None
        application.may.set()
        with pytest.raises(ValueError, match="a fault"):
            await first
        application.fails = False
        assert await second == (202, 2)

    asyncio.run(ask())


def test_a_ballot_is_filed_anew_once_another_gateway_filed_one() -> None:
    """A then B then A again, of which B went elsewhere: A stands in the end."""

    async def ask() -> None:
        gateway = Gateway(Application())
        assert await gateway.send("/v1/ballots") == (202, 1)
        gateway.ballots.note(str(OTHER))
        assert await gateway.send("/v1/ballots") == (202, 1)
        gateway.ballots.note(str(ONE))
        assert await gateway.send("/v1/ballots") == (202, 2)

    asyncio.run(ask())


def test_no_ballot_is_remembered_while_nobody_hears_of_others() -> None:
    async def ask() -> None:
        gateway = Gateway(Application())
        assert await gateway.send("/v1/ballots") == (202, 1)
        gateway.ballots.end()
        assert [await gateway.send("/v1/ballots") for _ in range(2)] == [(202, 2), (202, 3)]
        gateway.ballots.begin()
        assert [await gateway.send("/v1/ballots") for _ in range(2)] == [(202, 4), (202, 4)]

    asyncio.run(ask())


def test_the_memory_has_an_end() -> None:
    async def ask() -> None:
        gateway = Gateway(Application())
        for number in range(MOST_REMEMBERED):
            await gateway.send("/v1/ballots", by=UUID(int=number + 1))
        assert await gateway.send("/v1/ballots") == (202, 1)
        await gateway.send("/v1/ballots", by=UUID(int=MOST_REMEMBERED + 1))
        assert await gateway.send("/v1/ballots") == (202, MOST_REMEMBERED + 2)
        for number in range(2 * MOST_REMEMBERED):
            gateway.ballots.note(str(UUID(int=number + 1)))
        assert await gateway.send("/v1/ballots") == (202, MOST_REMEMBERED + 3)

    asyncio.run(ask())
