"""Steps 6 and 7: a browser that the zoo has never seen opens pages that use the SDK."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from playwright.sync_api import Error, Page, sync_playwright
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from cli.demo.watch import NETWORK, PAGE, DemoStep, too_late
from kernelzoo.domain.zoo import HitLevel
from kernelzoo.errors import KernelZooError
from workers.fleet.chromium import find_chromium, own_flags
from workers.fleet.gpu import GpuChoice

Result = TypeVar("Result")


class PageFailed(KernelZooError):
    """The page did not do what it was opened for."""


class FrameworkResult(BaseModel):
    """The workload was also run in another engine of the page, on the same inputs and one thread.

    `speedup` is that of the zoo's kernel over it, `difference` the largest between their outputs.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    gflops: float
    speedup: float
    difference: float | None


class PageResult(BaseModel):
    """The example page says this of one workload. Rates are GFLOP/s: of wasm, of one thread. A
    zoo's kernel that is the default (`same_kernel`) is timed once, so that both rates are equal.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    workload: str
    level: str
    votes: int | None
    same_kernel: bool
    manifest_ms: float = Field(alias="manifestMs")
    default_gflops: float
    zoo_gflops: float
    limit_gflops: float
    speedup: float
    max_error: float
    correct: bool
    frameworks: tuple[FrameworkResult, ...] = ()

    @property
    def share_of_limit(self) -> float:
        return self.zoo_gflops / self.limit_gflops


class NetworkResult(BaseModel):
    """The example page says this of a whole network: milliseconds of a run on one thread, of the
    zoo's kernels and of another engine. `difference` is the largest between their outputs, as a
    share of the largest entry. `levels` say of each call where its kernel came from.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    zoo_ms: float
    peer: str | None
    peer_ms: float | None
    difference: float | None
    calls: int
    levels: tuple[HitLevel, ...]

    @property
    def calls_by_level(self) -> dict[HitLevel, int]:
        """The levels that its calls have, in the order of the chain, with how many have each."""
        counts = Counter(self.levels)
        return {level: counts[level] for level in HitLevel if counts[level]}


_RESULTS = TypeAdapter(tuple[PageResult, ...])
_NETWORK = TypeAdapter(NetworkResult)

MORE_PROBES = 2
"""The page is opened again so often where it found itself in a class without a winner."""
EQUAL = 1e-4
"""Outputs of a network differ by at most so much, as a share of the largest entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """`profile` is a directory that does not exist yet. What its pages write to their developer
    console goes to `log`.
    """

    gpu: GpuChoice | None
    profile: Path
    log: Path


@contextmanager
def visiting(visitor: Visitor) -> Iterator[Page]:
    """A page of a new browser. Raises PageFailed for what the browser says of it."""
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            visitor.profile,
            executable_path=find_chromium(Path(playwright.chromium.executable_path)),
            args=own_flags(visitor.gpu),
            chromium_sandbox="--no-sandbox" not in own_flags(),
            viewport={"width": 1100, "height": 760},
        )
        try:
            page = context.pages[0] if context.pages else context.new_page()
            _keep_log(page, visitor.log)
            yield page
        except Error as error:
            raise PageFailed(str(error).partition("\n")[0]) from error
        finally:
            with suppress(Error):
                context.close()


def kernels_of(page: Page, address: str) -> tuple[PageResult, ...]:
    """A result for each workload. On a busy machine the page may probe other primitives than the
    agents did; it keeps what it probed, so it forgets that before it is opened again.

    Raises PageFailed when the page fails, stays silent or shows something wrong.
    """
    results = _kernels(page, address)
    for _ in range(MORE_PROBES):
        if all(result.level == HitLevel.EXACT for result in results):
            break
        page.evaluate("localStorage.clear()")
        results = _kernels(page, address)
    return tuple(accept(result) for result in results)


def network_of(page: Page, address: str) -> NetworkResult:
    """Raises PageFailed as `kernels_of` does, and where the outputs of two engines differ."""
    told = _told(page, address, "kernelzooNetwork", NETWORK)
    return accept_network(_read(_NETWORK, told))


def accept(result: PageResult) -> PageResult:
    """Raises PageFailed unless this was a hit with right output."""
    if result.level != HitLevel.EXACT:
        raise PageFailed(f"the zoo answered {result.level!r}, not {HitLevel.EXACT.value!r}")
    if not result.correct:
        raise PageFailed(f"the output is wrong by up to {result.max_error:g}")
    return result


def accept_network(result: NetworkResult) -> NetworkResult:
    """Raises PageFailed unless both engines compute the same. What is no number comes as None."""
    if result.peer is not None and not (
        result.difference is not None and result.difference <= EQUAL
    ):
        raise PageFailed(f"the outputs of the network differ by {result.difference}")
    return result


def _kernels(page: Page, address: str) -> tuple[PageResult, ...]:
    return _read(_RESULTS, _told(page, address, "kernelzooResults", PAGE))


def _told(page: Page, address: str, name: str, step: DemoStep) -> str:
    """Returns as JSON what a page leaves at `globalThis[name]`."""
    page.goto(address)
    try:
        page.wait_for_function(
            f"globalThis.{name} || globalThis.kernelzooError", timeout=step.limit_s * 1e3
        )
    except Error as error:
        raise PageFailed(too_late(step)) from error
    if (problem := page.evaluate("String(globalThis.kernelzooError ?? '')")) != "":
        raise PageFailed(f"the page says: {problem}")
    return str(page.evaluate(f"JSON.stringify(globalThis.{name})"))


def _read(kind: TypeAdapter[Result], told: str) -> Result:
    try:
        return kind.validate_json(told)
    except ValidationError as error:
        raise PageFailed(f"the page's result cannot be read: {error}") from error


def _keep_log(page: Page, log: Path) -> None:
    log.touch()

    def write(line: str) -> None:
        with log.open("a") as handle:
            handle.write(line + "\n")

    page.on("console", lambda message: write(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: write(f"uncaught: {error}"))


def picture_beside(screenshot: Path, of: str) -> Path:
    """`demo.png` and `demo-console.png`."""
    return screenshot.with_stem(f"{screenshot.stem}-{of}")


def picture_of(page: Page, screenshot: Path) -> None:
    page.screenshot(path=screenshot, full_page=True)


def picture_of_console(page: Page, console: str, screenshot: Path) -> None:
    """Takes a picture of the console, in a page of its own."""
    other = page.context.new_page()
    other.goto(console, wait_until="networkidle")
    picture_of(other, screenshot)
    other.close()
