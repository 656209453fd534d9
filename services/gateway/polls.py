"""How many requests for a lease may wait at once, of one agent and of the strangers of a network.

Each keeps a connection and is woken whenever anything changes, so that thousands of them take a
core's whole time while they wait for nothing.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from services.gateway.problems import Refusal
from services.gateway.tokens import Session

PER_IDENTITY = 8
"""Two targets in each of two tabs, and as many again that were left and have not noticed."""
RETRY_S = 5


class Polls:
    """Counts those of this process. The operator's agents are counted by identity alone."""

    def __init__(self, per_network: int) -> None:
        self._per_network = per_network
        self._open: Counter[str] = Counter()

    @contextmanager
    def polling(self, session: Session) -> Iterator[None]:
        """Raises Refusal (429) for one too many."""
        identity = str(session.identity_id)
        if self._open[identity] >= PER_IDENTITY:
            raise _too_many("this agent", PER_IDENTITY)
        if not session.operated and self._open[session.network] >= self._per_network:
            raise _too_many("this network", self._per_network)
        counted = [identity] if session.operated else [identity, session.network]
        self._open.update(counted)
        try:
            yield
        finally:
            self._open.subtract(counted)
            for each in counted:
                if self._open[each] <= 0:
                    del self._open[each]


def _too_many(who: str, most: int) -> Refusal:
    return Refusal(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"{who} has {most} requests for a lease waiting; let one of them end, then ask again",
        {"Retry-After": str(RETRY_S)},
    )
