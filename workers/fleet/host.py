"""What a page finds in `globalThis.kernelzooHost`: the operator's key and the turn to time."""

import json
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, Frame, Page

from workers.fleet.turn import TimingTurn

_ACQUIRE = "__kernelzooAcquireTurn"
_RELEASE = "__kernelzooReleaseTurn"


async def offer_host(
    context: BrowserContext, agent: str, turn: TimingTurn, *, url: str, operator_key: str
) -> None:
    """Applies to pages opened later. Only pages of the gateway's origin see the key."""

    async def acquire(_source: object) -> None:
        await turn.acquire(agent)

    def release(_source: object) -> None:
        turn.release(agent)

    await context.expose_binding(_ACQUIRE, acquire)
    await context.expose_binding(_RELEASE, release)
    await context.add_init_script(host_script(url, operator_key))


def host_script(url: str, operator_key: str) -> str:
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    return f"""if (location.origin === {json.dumps(origin)}) {{
  globalThis.kernelzooHost = Object.freeze({{
    operatorKey: {json.dumps(operator_key)},
    acquireTurn: () => globalThis.{_ACQUIRE}(),
    releaseTurn: () => globalThis.{_RELEASE}(),
  }});
}}"""


def forfeit_with_page(page: Page, agent: str, turn: TimingTurn) -> None:
    """A page that crashes, closes or loads again gives the turn back."""

    def navigated(frame: Frame) -> None:
        if frame == page.main_frame:
            turn.forfeit(agent)

    page.on("crash", lambda _page: turn.forfeit(agent))
    page.on("close", lambda _page: turn.forfeit(agent))
    page.on("framenavigated", navigated)
