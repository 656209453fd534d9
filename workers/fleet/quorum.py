"""Checks that a fleet is large enough to confirm a kernel without visitors, and what to do if
not."""

import json
from collections.abc import Sequence
from contextlib import suppress
from urllib.request import Request, urlopen

from workers.fleet.browsers import Share

PATIENCE_S = 5


def quorum_of(url: str) -> int | None:
    """Asks the gateway how many agents of a device class must vote; None where it does not
    answer."""
    asked = Request(f"{url}/v1/overview")  # noqa: S310 - the operator's own address
    with suppress(OSError, ValueError, KeyError), urlopen(asked, timeout=PATIENCE_S) as answer:  # noqa: S310
        return int(json.load(answer)["quorum"])
    return None


def shortage(shares: Sequence[Share], quorum: int | None) -> str | None:
    """A sentence for people, where no browser of the fleet has a quorum of agents. Those of
    different browsers are of different device classes."""
    most = max((share.agents for share in shares), default=0)
    if quorum is None or most >= quorum:
        return None
    agents = "1 agent" if most == 1 else f"{most} agents"
    return (
        f"{agents} of a browser confirm no kernel alone: a quorum of this zoo is {quorum} of one "
        f"device class, and visitors or other fleets must add {quorum - most}; to do without, run "
        f"{quorum} of one browser (--agents {quorum}; with Compose FLEET_AGENTS={quorum} in .env)"
    )
