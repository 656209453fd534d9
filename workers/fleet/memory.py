"""Limits how much memory browsers may take: one that takes more is ended, and its agent starts
again.

A browser is a tree of processes, and what a GPU's driver takes is in its GPU process. A limit of
the kernel's on each process (RLIMIT_AS, RLIMIT_DATA) counts address space, of which Chromium
reserves terabytes; a cgroup needs rights that a fleet has not everywhere, and ends whatever it
likes without a word. So the fleet looks at its browsers twice a second, which a driver that grows
by 200 MB a second leaves time for.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import psutil
import structlog

from workers.fleet.browsers import DeviceLost, Launch, Opener, PageLost, Tab

log = structlog.get_logger(__name__)

LOOK_S = 0.5
MIB = 1 << 20
BROWSER_MIB = 2048
"""A browser that measures takes 300 to 900 MiB, tensors of the largest layers included."""

SETTING = "KERNELZOO_FLEET_MEMORY_MIB"
V1, V2 = "memory.limit_in_bytes", "memory.max"


def machine_bytes(root: Path = Path("/")) -> int:
    """The machine's memory, or the least that a cgroup of this process's leaves it: its own, or one
    above it, as of its container, its service or its user.
    """
    sizes = [psutil.virtual_memory().total]
    for file in cgroup_limits(root):
        # A cgroup without a limit says `max`, and above a container's own there is no file.
        with suppress(OSError, ValueError):
            sizes.append(int(file.read_text()))
    return min(sizes)


def cgroup_limits(root: Path = Path("/")) -> Iterator[Path]:
    """Files that hold them, from the process's own cgroup up, in both versions of the interface.

    A line of /proc/self/cgroup is `number:controllers:path`; in version 2 the number is 0, and
    no controller is named (cgroups(7)).
    """
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            mount = root / ("sys/fs/cgroup/memory" if controllers else "sys/fs/cgroup")
            own = PurePosixPath(path)
            for each in (own, *own.parents):
                yield mount / each.relative_to("/") / (V1 if controllers else V2)


def default_fleet_mib(machine: int) -> int:
    """Half of the memory: the rest is for the stack, and for whoever works on the machine."""
    return machine // MIB // 2


@dataclass(slots=True, kw_only=True)
class FleetMemory:
    """The memory of all browsers of a fleet, by profile. `peak_bytes` is the most that they had
    together.
    """

    fleet_bytes: int
    browser_bytes: int = BROWSER_MIB * MIB
    peak_bytes: int = 0
    _sizes: dict[Path, int] = field(default_factory=dict)

    @classmethod
    def of(cls, fleet_mib: int | None) -> "FleetMemory":
        return cls(fleet_bytes=MIB * (fleet_mib or default_fleet_mib(machine_bytes())))

    def note(self, profile: Path, size: int) -> str | None:
        """Returns why the browser of a profile is to be ended, or None: it takes more than one may,
        or it takes the most where all together take too much."""
        self._sizes[profile] = size
        whole = sum(self._sizes.values())
        self.peak_bytes = max(self.peak_bytes, whole)
        if size > min(self.browser_bytes, self.fleet_bytes):
            most = min(self.browser_bytes, self.fleet_bytes)
            return _sentence(f"its browser took {size // MIB} MiB, and may take {most // MIB}")
        if whole > self.fleet_bytes and size == max(self._sizes.values()):
            return _sentence(
                f"all browsers took {whole // MIB} MiB, and may take {self.fleet_bytes // MIB}; "
                f"its own took the most, {size // MIB}; take fewer agents, or raise {SETTING}"
            )
        return None

    def forget(self, profile: Path) -> None:
        self._sizes.pop(profile, None)

    @asynccontextmanager
    async def limited(self, opener: Opener, launch: Launch) -> AsyncIterator[Tab]:
        """The browser, until it is ended for its memory. Raises DeviceLost then."""
        watching = asyncio.create_task(self._watch(launch.profile))
        try:
            async with opener(launch) as tab:
                yield tab
        except PageLost as error:
            if watching.done() and not watching.cancelled():
                raise DeviceLost(watching.result()) from error
            raise
        finally:
            watching.cancel()
            self.forget(launch.profile)

    async def _watch(self, profile: Path) -> str:
        """Ends with the reason for which it has ended the browser."""
        while True:
            await asyncio.sleep(LOOK_S)
            tree = await asyncio.to_thread(lambda: tuple(browser_processes(profile)))
            size = await asyncio.to_thread(taken_bytes, tree)
            if (why := self.note(profile, size)) is not None:
                log.warning("memory", agent=profile.name, why=why)
                kill(tree)
                return why


def _sentence(what: str) -> str:
    return f"{what}. It starts again with a new browser."


def browser_processes(profile: Path) -> Iterator[psutil.Process]:
    """Yields the processes below this one that name the profile, and all that they have started."""
    found: dict[int, psutil.Process] = {}
    with suppress(psutil.Error):
        for process in psutil.Process().children(recursive=True):
            if process.pid not in found and _names(process, profile):
                found[process.pid] = process
                with suppress(psutil.Error):
                    found.update((p.pid, p) for p in process.children(recursive=True))
    yield from found.values()


def _names(process: psutil.Process, profile: Path) -> bool:
    """On its command line, or as WebKitGTK is told where to write."""
    with suppress(psutil.Error):
        if any(str(profile) in word for word in process.cmdline()):
            return True
        environment: Mapping[str, str] = process.environ()
        return environment.get("XDG_DATA_HOME", "").startswith(f"{profile}/")
    return False


def taken_bytes(tree: Iterable[psutil.Process]) -> int:
    """Counts the memory of a tree of processes; what they share is counted once."""
    whole = 0
    for process in tree:
        with suppress(psutil.Error):
            whole += process.memory_full_info().pss
    return whole


def kill(tree: Iterable[psutil.Process]) -> None:
    for process in tree:
        with suppress(psutil.Error):
            process.kill()
