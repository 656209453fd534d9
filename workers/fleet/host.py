"""Provides what a page finds in `globalThis.kernelzooHost`, and the talk that carries it.

Engines differ in how a page may call its driver; all of them let the driver call the page. So the
page's wishes for the turn wait in the page until the driver asks for them, which it always does.
"""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ConfigDict, ValidationError

from workers.fleet.browsers import PageLost, Tab
from workers.fleet.snapshot import Snapshot
from workers.fleet.turns import TimingTurn

TALK_S = 0.5
ANSWER_S = 20
OPEN_S = 30

# The page's script may still be on its way when its document is there.
OFFER = """async ({ origin, operatorKey, notes }) => {
  if (location.origin !== origin) throw new Error(`this is ${location.origin}, not ${origin}`);
  const until = performance.now() + 20_000;
  while (!globalThis.kernelzooStart) {
    if (performance.now() > until) throw new Error("the agent page's script did not run");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  for (const [key, note] of Object.entries(notes)) {
    if (localStorage.getItem(key) === null) localStorage.setItem(key, note);
  }
  const wishes = [];
  let kept = "";
  let heard = () => {};
  let grant = () => {};
  let read;
  const wish = (name) => { wishes.push(name); heard(); };
  globalThis.kernelzooHost = Object.freeze({
    operatorKey,
    acquireTurn: () => new Promise((resolve) => { grant = resolve; wish("acquire"); }),
    releaseTurn: async () => wish("release"),
  });
  globalThis.kernelzooTalk = async (granted, waitMs) => {
    if (granted) grant();
    if (wishes.length === 0 && waitMs > 0) {
      await new Promise((resolve) => { heard = resolve; setTimeout(resolve, waitMs); });
    }
    const { events, state } = globalThis.kernelzooAgent;
    // The page forgets its oldest events: the last one read is remembered, not its number.
    const fresh = events.slice(events.lastIndexOf(read) + 1);
    read = events.at(-1);
    const { phase, error } = state;
    const all = JSON.stringify({ ...localStorage });
    const notes = all === kept ? null : all;
    kept = all;
    return {
      wishes: wishes.splice(0), notes, state: phase, error: error?.message ?? "", events: fresh,
    };
  };
  globalThis.kernelzooStart();
}"""
TALK = "async ({ granted, waitMs }) => globalThis.kernelzooTalk(granted, waitMs)"


class PageReport(Snapshot):
    """A snapshot, what the page wishes in the order of wishing (to `acquire`, to `release`), and
    what it keeps, as JSON, where that has changed.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    wishes: tuple[str, ...]
    notes: str | None


async def offer_host(tab: Tab, profile: Path, url: str, operator_key: str) -> None:
    """Starts the agent. Only a page of the gateway's origin sees the key."""
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    offered = {"origin": origin, "operatorKey": operator_key, "notes": offered_notes(profile)}
    await within(OPEN_S, tab.evaluate(OFFER, offered))


class Talk:
    """Talks with one page: takes its wishes to the turn and the turn's grants back to it."""

    def __init__(self, tab: Tab, profile: Path, agent: str, turn: TimingTurn) -> None:
        self._tab, self._profile, self._agent, self._turn = tab, profile, agent, turn
        self._asking: asyncio.Task[None] | None = None

    async def listen(self) -> Snapshot:
        """Returns after `TALK_S` at the latest. Raises PageLost."""
        granted = await self._granted()
        wait_ms = 0 if self._asking is not None else 1e3 * TALK_S
        answer = await within(
            ANSWER_S, self._tab.evaluate(TALK, {"granted": granted, "waitMs": wait_ms})
        )
        words = _parse(answer)
        for wish in words.wishes:
            self._take(wish)
        if words.notes is not None:
            write_notes(self._profile, words.notes)
        return words

    def end(self) -> None:
        """The page is gone, and its turn passes on."""
        self._turn.forfeit(self._agent)
        if self._asking is not None:
            self._asking.cancel()

    async def _granted(self) -> bool:
        """Returns whether the turn that the page waits for has come, once for each."""
        if self._asking is None:
            return False
        await asyncio.wait((self._asking,), timeout=TALK_S)
        if not self._asking.done():
            return False
        self._asking = None
        return True

    def _take(self, wish: str) -> None:
        if wish == "release":
            self._turn.release(self._agent)
        else:
            self._asking = asyncio.create_task(self._turn.acquire(self._agent))


def _parse(answer: Any) -> PageReport:
    try:
        return PageReport.model_validate(answer)
    except ValidationError as error:
        raise PageLost(f"the page's words cannot be read: {error}") from error


async def within(limit_s: float, answer: Any) -> Any:
    """Raises PageLost when the page does not answer within `limit_s`."""
    try:
        async with asyncio.timeout(limit_s):
            return await answer
    except TimeoutError as error:
        raise PageLost(f"the page did not answer within {limit_s} s") from error


MEASURED = ("kernelzoo:probe:", "kernelzoo:levels:", "kernelzoo:gpu-probe:")
"""Beginnings of the keys under which a page keeps what it measured of its device. The rest of a key
names the engine and its version (client/src/device/profile.ts, gpu-profile.ts)."""


def offered_notes(profile: Path) -> dict[str, str]:
    """The agent's own notes, and for what it has not measured itself the probes of the other agents
    of the fleet. They run on one host, so they are one device: two agents whose probes were
    disturbed differently would vote in two device classes, and neither class has a quorum then.
    """
    measured = {
        key: note
        for other in sorted(profile.parent.iterdir())
        for key, note in _notes(other).items()
        if key.startswith(MEASURED)
    }
    return measured | _notes(profile)


def _notes(profile: Path) -> dict[str, str]:
    """Empty where the agent has kept none yet."""
    with suppress(OSError, ValueError):
        return {str(key): str(note) for key, note in json.loads(_file(profile).read_text()).items()}
    return {}


def write_notes(profile: Path, text: str) -> None:
    """`text` is JSON. Readers see either the old or the new file, never half of one."""
    draft = _file(profile).with_suffix(".draft")
    draft.write_text(text)
    draft.rename(_file(profile))


def _file(profile: Path) -> Path:
    return profile / "notes.json"
