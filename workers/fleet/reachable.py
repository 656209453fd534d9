"""Whether a gateway answers at all, asked before a browser is started for it."""

import asyncio
from collections.abc import AsyncIterator
from urllib.error import HTTPError
from urllib.request import urlopen

from workers.fleet.restarts import restart_delay_s

ASK_S = 5


async def until_reachable(url: str) -> AsyncIterator[str]:
    """Yields why not, before each wait; ends when the gateway answers."""
    refusals = 0
    while (why := await asyncio.to_thread(complaint, url)) is not None:
        refusals += 1
        yield why
        await asyncio.sleep(restart_delay_s(refusals))


def complaint(url: str) -> str | None:
    """What is wrong, or None. An answer of any kind that is no fault of the server will do."""
    try:
        with urlopen(f"{url}/healthz", timeout=ASK_S):  # noqa: S310 # the operator's own address
            return None
    except HTTPError as error:
        return None if error.code < 500 else f"{url} answers {error.code}"
    except (OSError, ValueError) as error:
        return f"{url} does not answer: {error}"
