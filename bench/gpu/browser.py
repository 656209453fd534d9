"""A page of its own script in a Chromium here, with WebGPU on the adapter that is a CPU."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Error

from bench.browser import CALL_MS, chromium
from bench.report import CannotMeasure
from bench.site import BenchSite

SWIFTSHADER = (
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--enable-features=Vulkan",
)


def answered(
    files: Mapping[str, bytes | Path], script: str, flags: Sequence[str] = SWIFTSHADER
) -> bytes:
    """Returns what the page answers when those files are served and `script`, a promise of it, runs
    there. Says on the terminal how far it is."""
    with BenchSite.serving() as site, chromium(*flags) as browser:
        for name, body in files.items():
            if isinstance(body, Path):
                site.lend(f"/webgpu/{name}", body)
            else:
                site.publish(f"/webgpu/{name}", body)
        return _run(browser, f"{site.url}/webgpu/index.html", script)


def _run(browser: Browser, address: str, script: str) -> bytes:
    page = browser.new_page()
    page.set_default_timeout(CALL_MS)
    page.on("console", _say)
    page.goto(address)
    page.wait_for_function(f"globalThis.{script.partition('.')[0]}", timeout=30_000)
    try:
        answer = page.evaluate(f"{script}.then((all) => JSON.stringify(all))")
    except Error as error:
        raise CannotMeasure(f"the page failed: {error.message[:400]}") from error
    return str(answer).encode()


def _say(message: ConsoleMessage) -> None:
    if message.type == "log":
        print(message.text, flush=True)
