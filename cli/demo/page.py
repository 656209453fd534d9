"""Step 5: a browser that the zoo has never seen opens a page that uses the SDK."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import BrowserContext, Error, Page, sync_playwright
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from cli.demo.watch import PAGE, too_late
from kernelzoo.domain.zoo import HitLevel
from kernelzoo.errors import KernelZooError
from workers.fleet.chromium import find_chromium, own_flags
from workers.fleet.gpu import Gpu


class PageFailed(KernelZooError):
    """What the page did not do."""


class FrameworkResult(BaseModel):
    """The same workload in another engine of the same page, on the same inputs and one thread.

    `speedup` is that of the zoo's kernel over it, `difference` the largest between their outputs.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    gflops: float
    speedup: float
    difference: float | None


class PageResult(BaseModel):
    """What the example page says of one workload. Rates are GFLOP/s: of wasm, of one thread."""

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


_RESULTS = TypeAdapter(tuple[PageResult, ...])


MORE_PROBES = 2
"""How often the page is opened again where it found itself in a class without a winner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageVisit:
    """`profile` is a directory that does not exist yet. The console is on the gateway.

    What the page writes to its developer console goes to `log`.
    """

    address: str
    console: str
    gpu: Gpu | None
    profile: Path
    log: Path
    screenshot: Path | None


def visit(plan: PageVisit) -> tuple[PageResult, ...]:
    """A result for each workload.

    Raises PageFailed when the page fails, stays silent or shows something wrong.
    """
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            plan.profile,
            executable_path=find_chromium(Path(playwright.chromium.executable_path)),
            args=own_flags(plan.gpu),
            chromium_sandbox="--no-sandbox" not in own_flags(),
            viewport={"width": 1100, "height": 760},
        )
        try:
            page = context.pages[0] if context.pages else context.new_page()
            _keep_log(page, plan.log)
            results = _probed(page, plan)
            if plan.screenshot is not None:
                _picture_of_console(context, plan.console, plan.screenshot)
        except Error as error:
            raise PageFailed(str(error).partition("\n")[0]) from error
        finally:
            with suppress(Error):
                context.close()
    return tuple(accept(result) for result in results)


def accept(result: PageResult) -> PageResult:
    """Raises PageFailed unless this was a hit with right output."""
    if result.level != HitLevel.EXACT:
        raise PageFailed(f"the zoo answered {result.level!r}, not {HitLevel.EXACT.value!r}")
    if not result.correct:
        raise PageFailed(f"the output is wrong by up to {result.max_error:g}")
    return result


def _probed(page: Page, plan: PageVisit) -> tuple[PageResult, ...]:
    """What the page shows. On a busy machine it may probe other primitives than the agents did; it
    keeps what it probed, so it forgets that before it is opened again."""
    results = _read(page, plan)
    for _ in range(MORE_PROBES):
        if all(result.level == HitLevel.EXACT for result in results):
            break
        page.evaluate("localStorage.clear()")
        results = _read(page, plan)
    return results


def _read(page: Page, plan: PageVisit) -> tuple[PageResult, ...]:
    page.goto(plan.address)
    try:
        page.wait_for_function(
            "globalThis.kernelzooResults || globalThis.kernelzooError",
            timeout=PAGE.limit_s * 1e3,
        )
    except Error as error:
        raise PageFailed(too_late(PAGE)) from error
    if (problem := page.evaluate("String(globalThis.kernelzooError ?? '')")) != "":
        raise PageFailed(f"the page says: {problem}")
    if plan.screenshot is not None:
        page.screenshot(path=plan.screenshot, full_page=True)
    try:
        return _RESULTS.validate_json(page.evaluate("JSON.stringify(globalThis.kernelzooResults)"))
    except ValidationError as error:
        raise PageFailed(f"the page's result cannot be read: {error}") from error


def _keep_log(page: Page, log: Path) -> None:
    log.touch()

    def write(line: str) -> None:
        with log.open("a") as handle:
            handle.write(line + "\n")

    page.on("console", lambda message: write(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: write(f"uncaught: {error}"))


def console_picture(screenshot: Path) -> Path:
    """Beside the page's picture: `demo.png` and `demo-console.png`."""
    return screenshot.with_stem(f"{screenshot.stem}-console")


def _picture_of_console(context: BrowserContext, console: str, screenshot: Path) -> None:
    page = context.new_page()
    page.goto(console, wait_until="networkidle")
    page.screenshot(path=console_picture(screenshot), full_page=True)
