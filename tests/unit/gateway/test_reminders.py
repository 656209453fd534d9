"""Agents that were told to come back are let through again at different times.

Sixteen networks that came back together each second held pages up together.
"""

import asyncio
from itertools import accumulate, repeat
from types import SimpleNamespace

import pytest
from starlette.types import Message, Receive, Scope, Send

from services.gateway.proxies import Proxies
from services.gateway.reminders import SOONEST, Reminders
from services.gateway.tokens import Tokens

WAIT_S = 2
ASKERS = 200
STEPS = 10


class Limited:
    """Refuses everybody, and counts how many it was asked by."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, _: Scope, __: Receive, send: Send) -> None:
        self.asked += 1
        headers = [(b"retry-after", str(WAIT_S).encode())]
        await send({"type": "http.response.start", "status": 429, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


ZOO = SimpleNamespace(
    state=SimpleNamespace(kernelzoo=SimpleNamespace(tokens=Tokens(secret="a secret", session_s=1)))
)


async def _vote(reminders: Reminders, number: int) -> None:
    await _send(reminders, "/v1/ballots", authorization=f"Bearer {number}")


async def _send(reminders: Reminders, path: str, **headers: str) -> None:
    async def receive() -> Message:
        raise AssertionError("no body is read")

    async def send(message: Message) -> None:
        assert message.get("status", 429) == 429

    scope = {
        "type": "http",
        "app": ZOO,
        "method": "PUT",
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await reminders(scope, receive, send)


def test_those_who_were_refused_together_are_let_through_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, limited = Clock(), Limited()
    monkeypatch.setattr("services.gateway.reminders.time", clock)
    reminders = Reminders(limited, Proxies.of("", 1))

    def let_through() -> int:
        """Counts those who are, of all that were refused at first."""
        before = limited.asked
        for number in range(ASKERS):
            asyncio.run(_vote(reminders, number))
        return limited.asked - before

    assert let_through() == ASKERS
    start_s = clock.now_s
    clock.now_s = start_s + 0.99 * SOONEST * WAIT_S
    assert let_through() == 0
    step_s = (1 - SOONEST) * WAIT_S / STEPS
    counts = []
    for after_s in accumulate(repeat(step_s, STEPS), initial=SOONEST * WAIT_S):
        clock.now_s = start_s + after_s
        counts.append(let_through())
    assert sum(counts) == ASKERS, "nobody is kept for longer than was told"
    assert max(counts) < ASKERS / 2


@pytest.mark.parametrize(
    ("path", "same"),
    [
        ("/v1/ballots", {"authorization": "Bearer 1"}),
        ("/v1/failures", {}),
        ("/v1/wrong-outputs", {}),
    ],
)
def test_what_decides_nothing_makes_nobody_somebody_else(path: str, same: dict[str, str]) -> None:
    """Attack: another host with each request, of which the body is read and understood."""
    limited = Limited()
    reminders = Reminders(limited, Proxies.of("", 1))
    changed = ["host", "user-agent"] + ([] if same else ["authorization", "origin"])
    for number in range(ASKERS):
        others = dict.fromkeys(changed, f"https://{number}.example")
        asyncio.run(_send(reminders, path, **same, **others))
    assert limited.asked == 1
