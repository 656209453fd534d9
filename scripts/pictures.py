"""Takes the pictures of docs/images, of a stack that really runs.

    python -m scripts.pictures
    python -m scripts.pictures --only console --folder /tmp/pictures

Look at them before you commit them.
"""

import os
import pty
import subprocess
import sys
from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from urllib.parse import quote

from playwright.sync_api import Browser

from cli.gateway_client import GatewayClient
from cli.stack.place import Place
from cli.stack.plan import FleetPlan, StackOptions
from cli.stack.ports import LOOPBACK, free_port
from cli.stack.supervisor import Stack, running, tended
from cli.tune import winners_of
from kernelzoo.domain.target import TargetKind
from scripts.screen import drawn, final_lines
from workers.fleet.chromium import launched_chromium

IMAGES = Path(__file__).parents[1] / "docs" / "images"
TALL = 760
KEY = "matmul:f32:m64k128n128"
OTHERS = ("softmax:f32:m64n128", "layer_norm:f32:m64n256")
# Of three agents two are of one class, even where a busy machine makes the probe waver.
OWN = (("KERNELZOO_QUORUM", "2"), ("KERNELZOO_MAX_MALICIOUS_SHARE", "0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """A view of the console; `shows` is a selector of what it waits for."""

    name: str
    view: str
    shows: str
    width: int = 1180
    height: int | None = None
    scheme: Literal["light", "dark"] = "light"


def main() -> None:
    options = ArgumentParser(description=__doc__)
    options.add_argument("--only", choices=("demo", "console"))
    options.add_argument("--folder", type=Path, default=IMAGES)
    asked = options.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch, launched_chromium() as browser:
        if asked.only != "console":
            demo(browser, Path(scratch), asked.folder)
        if asked.only != "demo":
            console(browser, Path(scratch), asked.folder)


def demo(browser: Browser, scratch: Path, folder: Path) -> None:
    """Its terminal, and its pages: `example.png` and `example-network.png`."""
    state = ("--state", str(scratch / "demo"))
    said = in_terminal("demo", *state, "--screenshot", str(folder / "example.png"))
    (folder / "example-console.png").unlink()
    page = browser.new_page(device_scale_factor=1)
    page.set_content(drawn(["$ make demo", *final_lines(said)]))
    page.locator("svg").screenshot(path=folder / "demo.png", omit_background=True)
    page.close()


def in_terminal(*words: str) -> str:
    """Runs a command, and returns what it writes to a terminal of 72 columns."""
    told: list[bytes] = []

    def read(terminal: int) -> bytes:
        told.append(os.read(terminal, 1 << 16))
        return told[-1]

    os.environ |= {"COLUMNS": "72", "LINES": "60", "TERM": "xterm-256color"}
    if pty.spawn((sys.executable, "-m", "cli", *words), read) != 0:
        raise SystemExit(f"`kernelzoo {words[0]}` failed; what it says is above")
    return b"".join(told).decode()


def console(browser: Browser, scratch: Path, folder: Path) -> None:
    options = StackOptions(
        host=LOOPBACK,
        port=free_port(),
        redis_port=free_port(),
        fleet=FleetPlan.chromium(3),
        overrides=OWN,
    )
    with running(Place.at(scratch / "console"), options) as stack, tended(stack):
        for shot in _shots(stack):
            _take(browser, shot, stack.url, folder)


def _shots(stack: Stack) -> tuple[Shot, ...]:
    """The console of a zoo that has tuned a few keys."""
    for key in (KEY, *OTHERS):
        _kernelzoo(stack, "tune", key)
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        entry, *_ = winners_of(KEY, (TargetKind.WASM,), gateway.entries())
        job = gateway.jobs(KEY, TargetKind.WASM)[-1].job
    key = f"#/zoo/{quote(KEY, safe='')}/{quote(entry.device_class, safe='')}"
    return (
        Shot(name="console", view=key, shows=".served-mark"),
        Shot(
            name="console-phone",
            view=f"#/tuning/{job}",
            shows=".step",
            width=390,
            height=960,
            scheme="dark",
        ),
    )


def _kernelzoo(stack: Stack, *words: str) -> None:
    command = (sys.executable, "-m", "cli", *words, "--state", str(stack.place.root))
    subprocess.run(command, check=True)


def _take(browser: Browser, shot: Shot, url: str, folder: Path) -> None:
    """The whole page, or as much of it as `height`."""
    page = browser.new_page(
        viewport={"width": shot.width, "height": shot.height or TALL}, color_scheme=shot.scheme
    )
    page.goto(f"{url}/console{shot.view}")
    page.locator(shot.shows).first.wait_for(state="attached")
    page.wait_for_load_state("networkidle")
    page.screenshot(path=folder / f"{shot.name}.png", full_page=shot.height is None)
    page.close()


if __name__ == "__main__":
    main()
