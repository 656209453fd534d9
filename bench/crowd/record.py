"""Records browsers of this machine.

    python -m bench.crowd.record [--passes 3] [--only NAME ...] [--machine PREFIX]

Each device is a browser with a fresh profile, whose page measures all spaces as an agent does, one
device after the other, and all of them once more in each pass. Flags that take instructions or the
optimising tier away from an engine make code as an older processor or a hurried browser runs it;
they are named so, and are no other machines. With a prefix of their names the devices of another
machine stand beside those of the first; `record_away` records machines that have only a browser.

A machine that is busy otherwise records noise: say what it did beside in docs/cost-model.md.
"""

import json
import subprocess
import tempfile
import time
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

import msgspec
from playwright.sync_api import sync_playwright

from bench.crowd.record_site import files, spaces
from bench.report import CannotMeasure
from bench.site import BenchSite
from fixtures.recorded.answer import RecordedAnswer, take_in
from workers.fleet.browsers import BrowserKind, PageLost
from workers.fleet.chromium import find_chromium, own_flags
from workers.fleet.firefox import find_firefox
from workers.fleet.webkit import WebKit

AT_MOST_S = 900.0
LAST_CACHE = "/sys/devices/system/cpu/cpu0/cache/index3/size"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSetup:
    """`v8` are flags of Chromium's engine, `preferences` lines of Firefox's user.js."""

    name: str
    browser: BrowserKind = BrowserKind.CHROMIUM
    v8: tuple[str, ...] = ()
    preferences: tuple[str, ...] = ()


DEVICES = (
    BrowserSetup(name="chromium"),
    BrowserSetup(name="firefox", browser=BrowserKind.FIREFOX),
    BrowserSetup(name="webkit", browser=BrowserKind.WEBKIT),
    BrowserSetup(name="chromium-no-fma3", v8=("--no-enable-fma3",)),
    BrowserSetup(name="chromium-no-avx", v8=("--no-enable-avx",)),
    BrowserSetup(name="chromium-bounds-checks", v8=("--wasm-enforce-bounds-checks",)),
    BrowserSetup(name="chromium-baseline", v8=("--liftoff-only",)),
    BrowserSetup(
        name="firefox-baseline",
        browser=BrowserKind.FIREFOX,
        preferences=('user_pref("javascript.options.wasm_optimizingjit", false);',),
    ),
)


def command(device: BrowserSetup, profile: Path, url: str) -> list[str]:
    if device.browser is BrowserKind.FIREFOX:
        program = find_firefox()
        assert program is not None, "install firefox-esr"
        (profile / "user.js").write_text("\n".join(device.preferences))
        return [
            *(str(program), "--headless", "--no-remote", "--remote-debugging-port=0"),
            *("--profile", str(profile), url),
        ]
    with sync_playwright() as playwright:
        program = find_chromium(Path(playwright.chromium.executable_path))
    return [
        *(str(program), "--headless=new"),
        *(f"--user-data-dir={profile}", *own_flags()),
        *((f"--js-flags={' '.join(device.v8)}",) if device.v8 else ()),
        url,
    ]


@contextmanager
def browser(device: BrowserSetup, url: str) -> Iterator[None]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        opened = webkit if device.browser is BrowserKind.WEBKIT else process
        with opened(device, Path(profile), url):
            yield


@contextmanager
def webkit(_: BrowserSetup, profile: Path, url: str) -> Iterator[None]:
    driven = WebKit(profile)
    try:
        driven.connect()
        driven.goto(url)
        yield
        with suppress(PageLost):
            driven.close()
    finally:
        driven.kill()


@contextmanager
def process(device: BrowserSetup, profile: Path, url: str) -> Iterator[None]:
    started = subprocess.Popen(
        command(device, profile, url), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        started.terminate()
        started.wait(30)


class Races(BenchSite):
    """Serves the page and keeps what it posts."""

    def __init__(self) -> None:
        super().__init__()
        self.posted: SimpleQueue[bytes] = SimpleQueue()

    def receive(self, body: bytes) -> None:
        self.posted.put(body)

    def answer(self, device: BrowserSetup) -> RecordedAnswer:
        """One pass. Raises CannotMeasure when the page fails or takes too long."""
        with browser(device, f"{self.url}/race.html?post"):
            try:
                body = self.posted.get(timeout=AT_MOST_S)
            except Empty as error:
                raise CannotMeasure(f"{device.name}: no answer in {AT_MOST_S:g} s") from error
        if "failure" in (told := json.loads(body)):
            raise CannotMeasure(f"{device.name}: {told['failure']}")
        return msgspec.json.decode(body, type=RecordedAnswer)


def machine() -> str:
    """The processor as it calls itself, and its last cache: virtual machines hide the rest."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    processor = next(line.partition(": ")[2] for line in lines if line.startswith("model name"))
    return f"{processor}, L3 {Path(LAST_CACHE).read_text().strip()}"


def record(passes: int, names: list[str] | None, prefix: str) -> None:
    """The data set has what was found so far after every answer."""
    every = spaces()
    candidates = [each for space in every for each in space.candidates]
    found: dict[str, list[RecordedAnswer]] = defaultdict(list)
    with Races.serving() as site:
        for name, body in files(every).items():
            site.publish(f"/{name}", body)
        for number in range(1, passes + 1):
            for device in (each for each in DEVICES if names is None or each.name in names):
                started_s = time.monotonic()
                try:
                    answer = site.answer(device)
                except CannotMeasure as error:
                    print(f"pass {number}: {error}", flush=True)
                    continue
                found[device.name].append(answer)
                took_s = time.monotonic() - started_s
                told = f"{len(answer.times)} of {len(candidates)} in {took_s:.0f} s"
                print(f"pass {number}, {device.name}: {told}", flush=True)
                take_in(f"{prefix}{device.name}", machine(), candidates, found[device.name])


def main() -> None:
    options = ArgumentParser(description=__doc__)
    options.add_argument("--passes", type=int, default=3)
    options.add_argument("--only", nargs="+", choices=[each.name for each in DEVICES])
    options.add_argument("--machine", default="", metavar="PREFIX", help="of the devices' names")
    chosen = options.parse_args()
    record(chosen.passes, chosen.only, chosen.machine)


if __name__ == "__main__":
    main()
