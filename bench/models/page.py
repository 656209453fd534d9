"""The page that runs whole networks, and what it answers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil
from playwright.sync_api import Browser, Error, Page

from bench.browser import CALL_MS, chromium
from bench.page_json import PageJson
from bench.report import CannotMeasure

OURS = "ours"
PEER = "peer"
LITERT = "litert"
TENSORFLOW = "tensorflow"
REST_MS = 2500
"""A browser that starts is busy for two seconds."""


class Entry(PageJson, frozen=True, kw_only=True):
    """An engine in a contest."""

    engine: str
    threads: int


class Timed(PageJson, frozen=True, kw_only=True):
    """Mirrors the times of `page/src/models/models.ts`."""

    name: str
    threads: int
    samples_ms: tuple[float, ...]
    difference: float
    aborts_ms: tuple[float, ...]


class ContestAnswer(PageJson, frozen=True, kw_only=True):
    """Times in the order of the entries."""

    timed: tuple[Timed, ...]
    limit_gflops: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cold:
    """A browser that has started, and never loaded a page."""

    first_output_ms: float


def contest(
    site_url: str, network: str, entries: Sequence[Entry], rounds: int
) -> tuple[ContestAnswer, str]:
    """The answer, and the browser's version. Raises CannotMeasure with what the page says."""
    asked = {"entries": [msgspec.to_builtins(entry) for entry in entries], "rounds": rounds}
    with chromium() as browser, models_page(browser, site_url) as page:
        if not page.evaluate("kernelzooModels.isolated"):
            raise CannotMeasure("the page is not cross-origin isolated: its clock is coarse")
        answer = answer_of(page, "contest", network, asked)
        return msgspec.json.decode(answer, type=ContestAnswer), f"Chromium {browser.version}"


@contextmanager
def models_page(browser: Browser, site_url: str) -> Iterator[Page]:
    """The page of whole networks in a context of its own, once its script has run."""
    with _opened(browser) as page:
        page.goto(f"{site_url}/models.html")
        page.wait_for_function("globalThis.kernelzooModels", timeout=60_000)
        yield page


def answer_of(page: Page, function: str, network: str, asked: Mapping[str, object]) -> str:
    """Returns what a function of the page answers, as JSON; `network` is the address of the
    document that it is given beside `asked`. Raises CannotMeasure with what the page says."""
    call = f"""async (asked) => {{
        const network = await (await fetch({json.dumps(network)})).json();
        return JSON.stringify(await kernelzooModels.{function}({{ ...asked, network }}));
    }}"""
    try:
        return str(page.evaluate(call, asked))
    except Error as error:
        raise CannotMeasure(f"the page failed: {error.message[:400]}") from error


def cold(site_url: str, network: str, engine: str, threads: int = 1) -> Cold:
    """Navigates a fresh browser to a page that loads the network at once."""
    with chromium() as browser, _opened(browser) as page:
        page.wait_for_timeout(REST_MS)
        query = f"cold={engine}&threads={threads}&network={network}"
        try:
            page.goto(f"{site_url}/models.html?{query}", wait_until="commit")
            page.wait_for_function("globalThis.kernelzooCold")
            told = page.evaluate("kernelzooCold")
        except Error as error:
            raise CannotMeasure(f"the page failed: {error.message[:400]}") from error
        if "failure" in told:
            raise CannotMeasure(f"{engine} does not run {network}: {told['failure'][:400]}")
    return Cold(first_output_ms=told["elapsedMs"])


@contextmanager
def _opened(browser: Browser) -> Iterator[Page]:
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(CALL_MS)
        yield page


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBytes:
    """A page's process holds so much at most. `code_bytes` of them are of the browser's own files,
    which all its processes share and the system drops where memory is short."""

    peak_bytes: int
    code_bytes: int

    @property
    def own_bytes(self) -> int:
        return self.peak_bytes - self.code_bytes

    def __sub__(self, other: "HeldBytes") -> "HeldBytes":
        return HeldBytes(
            peak_bytes=self.peak_bytes - other.peak_bytes,
            code_bytes=self.code_bytes - other.code_bytes,
        )


def held_by_page() -> HeldBytes:
    """The largest process of a page that this process started."""
    started = psutil.Process().children(recursive=True)
    held = (_held_by(process.pid) for process in started if _is_page(process))
    return max(held, key=lambda each: each.peak_bytes)


def _is_page(process: psutil.Process) -> bool:
    """Returns whether a process renders a page, and none of the browser's own, such as the list
    under its address bar (157 MB, loaded seconds after the start); not one that has ended
    meanwhile."""
    try:
        flags = process.cmdline()
        return "--type=renderer" in flags and "--top-chrome-webui" not in flags
    except psutil.NoSuchProcess:
        return False


def _held_by(pid: int) -> HeldBytes:
    """Zeros where the system does not tell, or the process has ended."""
    told = Path(f"/proc/{pid}/status")
    lines = told.read_text().splitlines() if told.exists() else []
    bytes_of = {name: int(kib.split()[0]) << 10 for name, _, kib in _sizes(lines)}
    return HeldBytes(peak_bytes=bytes_of.get("VmHWM", 0), code_bytes=bytes_of.get("RssFile", 0))


def _sizes(lines: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    return (line.partition(":") for line in lines if line.startswith(("VmHWM:", "RssFile:")))
