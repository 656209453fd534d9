"""Records real measurements with a stack of its own: `python -m tests.recorded.record DIRECTORY`.

Run again on the same directory it adds a pass: fresh profiles, everything measured once more. Each
run ends by writing the data set. Names of devices behind the directory record these alone, and the
name `none` writes the data set alone.

Each device is a browser of this machine with a fresh profile, told that it is automated, which is
what lets the agent page start without a click. Flags that take instructions or the
optimising tier away from an engine make code as an older processor or a hurried browser runs it;
they are named so, and are no other machines.
"""

import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
from workers.fleet.chromium import find_chromium, own_flags
from workers.fleet.firefox import find_firefox

WORKLOADS = Path(__file__).parent / "workloads.txt"
AT_MOST_S = 600.0
WATCH_S = 1.0
QUIET_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """`v8` are flags of Chromium's engine, `preferences` lines of Firefox's user.js."""

    name: str
    v8: tuple[str, ...] = ()
    preferences: tuple[str, ...] = ()
    firefox: bool = False


DEVICES = (
    Device(name="chromium"),
    Device(name="firefox", firefox=True),
    Device(name="chromium-no-fma3", v8=("--no-enable-fma3",)),
    Device(name="chromium-no-avx", v8=("--no-enable-avx",)),
    Device(name="chromium-bounds-checks", v8=("--wasm-enforce-bounds-checks",)),
    Device(name="chromium-baseline", v8=("--liftoff-only",)),
    Device(
        name="firefox-baseline",
        firefox=True,
        preferences=('user_pref("javascript.options.wasm_optimizingjit", false);',),
    ),
)


def command(device: Device, profile: Path, url: str) -> list[str]:
    if device.firefox:
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
        process = subprocess.Popen(
            command(device, Path(profile), url),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def measured(stack: Stack) -> int:
    with psycopg.connect(stack.postgres.url) as db:
        row = db.execute("SELECT count(*) FROM measurement").fetchone()
    assert row is not None
    return int(row[0])


def record(stack: Stack, device: Device) -> None:
    """Until the device has measured everything, stops, or has had its time."""
    started_s = changed_s = time.monotonic()
    before = count = measured(stack)
    with browser(device, f"{stack.url}/agent?start=1"):
        while time.monotonic() < min(started_s + AT_MOST_S, changed_s + QUIET_S):
            time.sleep(WATCH_S)
            if (now := measured(stack)) != count:
                count, changed_s = now, time.monotonic()
    with psycopg.connect(stack.postgres.url, autocommit=True) as db:
        db.execute("CREATE TABLE IF NOT EXISTS recorded (name text, session_id bigint)")
        db.execute(
            """
            INSERT INTO recorded SELECT %s, id FROM agent_session
            WHERE id NOT IN (SELECT session_id FROM recorded)
            """,
            (device.name,),
        )
    print(f"{device.name}: {count - before} in {changed_s - started_s:.0f} s", flush=True)


def collected(url: str) -> Dataset:
    """Every candidate in the order of promise, and the best time of each device for it."""
    with psycopg.connect(url) as db:
        candidates = db.execute(
            """
            SELECT c.candidate_id, j.workload_key, c.config, c.requires
            FROM candidate c JOIN tuning_job j ON j.id = c.job_id ORDER BY c.job_id, c.ordinal
            """
        ).fetchall()
        devices = [_device(db, device, [row[0] for row in candidates]) for device in DEVICES]
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
) -> RecordedDevice:
    best = dict(
        db.execute(
            """
            SELECT m.candidate_id, min(m.best_ns) FROM measurement m
            JOIN lease l ON l.id = m.lease_id JOIN recorded r ON r.session_id = l.session_id
            WHERE r.name = %s AND m.outcome = 'ok' AND m.verdict = 'verified' GROUP BY 1
            """,
            (device.name,),
        ).fetchall()
    )
    sessions = db.execute(
        """
        SELECT s.device_class, s.engine_name, s.engine_version, s.peak_gflops, s.probe
        FROM agent_session s JOIN recorded r ON r.session_id = s.id
        WHERE r.name = %s ORDER BY s.probe IS NULL, s.id
        """,
        (device.name,),
    ).fetchall()
    device_class, engine, version, peak_gflops, probe = sessions[0]
    return RecordedDevice(
        name=device.name,
        device_class=device_class,
        engine=Engine(name=engine, version=version),
        peak_gflops=peak_gflops,
        probe=msgspec.convert(probe, ProbeLevels | None),
        passes=len(sessions),
        times_ns=[round(best[each]) if each in best else None for each in candidate_ids],
    )


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
