"""Records real measurements with a stack of its own: `python -m tests.recorded.record DIRECTORY`.

Run again on the same directory it adds a pass: fresh profiles, everything measured once more. Each
run ends by writing the data set. Names of devices behind the directory record these alone, and the
name `none` writes the data set alone.

Each device is a browser of this machine with a fresh profile, told that it is automated, which is
what lets the agent page start without a click. Flags that take instructions or the
optimising tier away from an engine make code as an older processor or a hurried browser runs it;
they are named so, and are no other machines.

Agents of one class would divide the space among them; here each shall measure all of it. So a pass
begins in a zoo that knows the kernels and has heard of no device.
"""

import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from playwright.sync_api import sync_playwright

from kernelzoo.cli.gateway_client import GatewayClient
from kernelzoo.cli.stack.place import Place
from kernelzoo.cli.stack.plan import StackOptions
from kernelzoo.cli.stack.ports import LOOPBACK, free_port
from kernelzoo.cli.stack.supervisor import Stack, running
from kernelzoo.domain.device import Engine, ProbeLevels
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from tests.recorded.dataset import Dataset, RecordedCandidate, RecordedDevice, write
from workers.fleet.browsers import BrowserKind, PageLost
from workers.fleet.chromium import find_chromium, own_flags
from workers.fleet.firefox import find_firefox
from workers.fleet.webkit import WebKit

WORKLOADS = Path(__file__).parent / "workloads.txt"
AT_MOST_S = 600.0
WATCH_S = 1.0
START_S = 240.0
QUIET_S = 60.0
"""Without a measurement, before the first and later: a busy machine is slow to open a browser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """`v8` are flags of Chromium's engine, `preferences` lines of Firefox's user.js."""

    name: str
    browser: BrowserKind = BrowserKind.CHROMIUM
    v8: tuple[str, ...] = ()
    preferences: tuple[str, ...] = ()


DEVICES = (
    Device(name="chromium"),
    Device(name="firefox", browser=BrowserKind.FIREFOX),
    Device(name="webkit", browser=BrowserKind.WEBKIT),
    Device(name="chromium-no-fma3", v8=("--no-enable-fma3",)),
    Device(name="chromium-no-avx", v8=("--no-enable-avx",)),
    Device(name="chromium-bounds-checks", v8=("--wasm-enforce-bounds-checks",)),
    Device(name="chromium-baseline", v8=("--liftoff-only",)),
    Device(
        name="firefox-baseline",
        browser=BrowserKind.FIREFOX,
        preferences=('user_pref("javascript.options.wasm_optimizingjit", false);',),
    ),
)


def command(device: Device, profile: Path, url: str) -> list[str]:
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
        *(str(program), "--headless=new", "--enable-automation"),
        *(f"--user-data-dir={profile}", *own_flags()),
        *((f"--js-flags={' '.join(device.v8)}",) if device.v8 else ()),
        url,
    ]


@contextmanager
def browser(device: Device, url: str) -> Iterator[None]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        opened = webkit if device.browser is BrowserKind.WEBKIT else process
        with opened(device, Path(profile), url):
            yield


@contextmanager
def webkit(_: Device, profile: Path, url: str) -> Iterator[None]:
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
def process(device: Device, profile: Path, url: str) -> Iterator[None]:
    started = subprocess.Popen(
        command(device, profile, url), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        started.terminate()
        started.wait(30)


def measured(stack: Stack) -> int:
    with psycopg.connect(stack.postgres.url) as db:
        row = db.execute("SELECT count(*) FROM measurement").fetchone()
    assert row is not None
    return int(row[0])


def record(stack: Stack, device: Device) -> None:
    """Until the device has measured everything, stops, or has had its time."""
    with psycopg.connect(stack.postgres.url, autocommit=True) as db:
        forget(db)
    started_s = changed_s = time.monotonic()
    count = 0
    with browser(device, f"{stack.url}/agent?start=1"):
        while time.monotonic() < min(
            started_s + AT_MOST_S, changed_s + (QUIET_S if count else START_S)
        ):
            time.sleep(WATCH_S)
            if (now := measured(stack)) != count:
                count, changed_s = now, time.monotonic()
    with psycopg.connect(stack.postgres.url, autocommit=True) as db:
        keep(db, device)
    print(f"{device.name}: {count} in {changed_s - started_s:.0f} s", flush=True)


def forget(db: psycopg.Connection[Any]) -> None:
    db.execute("TRUNCATE identity, zoo_entry, common_kernel, evaluation_order CASCADE")


def keep(db: psycopg.Connection[Any], device: Device) -> None:
    """What the only session there is has found."""
    db.execute(
        """
        CREATE TABLE IF NOT EXISTS recorded (
            pass bigserial, name text, device_class text, engine text, version text,
            peak_gflops double precision, probe jsonb, times jsonb)
        """
    )
    db.execute(
        """
        INSERT INTO recorded (name, device_class, engine, version, peak_gflops, probe, times)
        SELECT %s, s.device_class, s.engine_name, s.engine_version, s.peak_gflops, s.probe, (
            SELECT jsonb_object_agg(candidate_id, relative_time) FROM (
                SELECT candidate_id, min(relative_time) AS relative_time FROM measurement
                WHERE outcome = 'ok' AND verdict = 'verified' GROUP BY candidate_id) found)
        FROM agent_session s ORDER BY s.id LIMIT 1
        """,
        (device.name,),
    )


def collected(url: str) -> Dataset:
    """Every candidate in the order of promise, and what each pass of each device found of it."""
    with psycopg.connect(url) as db:
        candidates = db.execute(
            """
            SELECT c.candidate_id, j.workload_key, c.config, c.requires
            FROM space_point p JOIN tuning_job j ON j.id = p.job_id
            JOIN candidate c ON c.candidate_id = p.candidate_id
            WHERE j.workload_key = ANY (%s) ORDER BY p.job_id, p.ordinal
            """,
            (WORKLOADS.read_text().split(),),
        ).fetchall()
        ids = [row[0] for row in candidates]
        devices = [found for each in DEVICES if (found := _device(db, each, ids))]
    return Dataset(
        machine=f"{_processor()}, {platform.system()} {platform.machine()}",
        candidates=[
            RecordedCandidate(workload=key, config=config, requires=requires)
            for _, key, config, requires in candidates
        ],
        devices=devices,
    )


def _device(
    db: psycopg.Connection[Any], device: Device, candidate_ids: list[str]
) -> RecordedDevice | None:
    passes = db.execute(
        """
        SELECT device_class, engine, version, peak_gflops, probe, times FROM recorded
        WHERE name = %s AND times IS NOT NULL ORDER BY probe IS NULL, pass
        """,
        (device.name,),
    ).fetchall()
    if not passes:
        return None
    device_class, engine, version, peak_gflops, probe, _ = passes[0]
    return RecordedDevice(
        name=device.name,
        device_class=device_class,
        engine=Engine(name=engine, version=version),
        peak_gflops=peak_gflops,
        probe=msgspec.convert(probe, ProbeLevels | None),
        passes=[[_rounded(times.get(each)) for each in candidate_ids] for *_, times in passes],
    )


def _rounded(time: float | None) -> float | None:
    """To a thousandth of the reference: a tenth of what two runs differ by at best."""
    return None if time is None else round(time, 3)


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.partition(": ")[2] for line in lines if line.startswith("model name"))


def main() -> None:
    place, names = Place.at(Path(sys.argv[1])), sys.argv[2:]
    options = StackOptions(host=LOOPBACK, port=free_port(), redis_port=free_port())
    with running(place, options) as stack:
        with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
            for key in WORKLOADS.read_text().split():
                gateway.register(Workload.parse(key), TargetKind.WASM)
        for device in DEVICES:
            if not names or device.name in names:
                record(stack, device)
        write(collected(stack.postgres.url))


if __name__ == "__main__":
    main()
