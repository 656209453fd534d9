"""Carries out a plan: starts the processes, restarts those that die, stops them all."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from threading import Event, Thread

import httpx2

from cli.stack.place import (
    Keys,
    Place,
    ProcessMark,
    StackRecord,
    own_mark,
    read_or_make_keys,
    read_record,
    refuse_running,
    take_lock,
    write_record,
)
from cli.stack.plan import StackOptions, plan_stack
from cli.stack.postgres import Postgres, start_postgres
from cli.stack.processes import (
    Child,
    ProcessSpec,
    Restart,
    Tier,
    adopt_orphans,
    ask_to_end,
    await_end,
    descendants,
    ending,
    kill_all,
    kill_leftovers,
    next_restart,
    reap,
    spawn,
)
from cli.stack.signals import uninterrupted
from cli.terminal import note
from kernelzoo.errors import StackError
from kernelzoo.store.blocking import connected
from kernelzoo.store.migrate import migrate
from kernelzoo.store.roles import make_reader

READY_S = 180.0
"""Processes that start beside much other work take minutes; one that dies again and again is told
at once."""
TEND_S = 0.1
POSTGRES = "postgres"
DEATHS_AT_START = 3
"""A process that dies so often before the stack is up has a cause that does not pass."""


@dataclass(slots=True, kw_only=True)
class Stack:
    """A stack that runs. Call `tend` a few times a second. Owned by `running`."""

    place: Place
    keys: Keys
    url: str
    postgres: Postgres
    children: dict[str, Child] = field(default_factory=dict)
    restarts: dict[str, Restart] = field(default_factory=dict)

    def launch(self, spec: ProcessSpec) -> None:
        _keep_previous_log(spec.log)
        for file, text in spec.files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.children[spec.name] = spawn(spec)
        self._record()

    def end(self, name: str) -> None:
        """Ends one process for good. Nothing happens when there is none of that name."""
        child = self.children.pop(name, None)
        if child is not None:
            ask_to_end(child)
            await_end(child)
            self._record()

    def log(self, name: str) -> Path:
        return self.place.log(name)

    def tend(self) -> tuple[str, ...]:
        """Restarts what died. Returns a sentence for each death and for each restart."""
        reap(child.process.pid for child in self.children.values())
        sentences = [*self._tend_postgres()]
        for name in tuple(self.children):
            sentences.extend(self._tend_child(name))
        if sentences:
            self._record()
        return tuple(sentences)

    def stop(self) -> tuple[str, ...]:
        """Ends everything, the highest tier first. Returns what did not end by itself."""
        killed: list[str] = []
        for tier in sorted(Tier, reverse=True):
            members = [c for c in self.children.values() if c.spec.tier is tier]
            for child in members:
                ask_to_end(child)
            killed.extend(child.spec.name for child in members if not await_end(child))
        self.postgres.stop()
        kill_all(descendants())
        self.place.record.unlink(missing_ok=True)
        return tuple(killed)

    def _tend_postgres(self) -> Iterator[str]:
        """A killed server leaves memory that the next one waits for: it is tried ever later."""
        if self.postgres.running():
            return
        pending = self.restarts.get(POSTGRES)
        if pending is None:
            yield f"postgres ended; starting it again, its log is {self.place.postgres_log}"
        elif time.monotonic() < pending.at_s:
            return
        try:
            self.postgres = start_postgres(self.place)
        except StackError as error:
            now_s = time.monotonic()
            restart = next_restart(pending, 0.0, now_s)
            self.restarts[POSTGRES] = restart
            yield f"{error}; trying again in {restart.at_s - now_s:g} s"
        else:
            self.restarts.pop(POSTGRES, None)
            yield "postgres started again"

    def _tend_child(self, name: str) -> Iterator[str]:
        child, now_s = self.children[name], time.monotonic()
        if child.alive:
            return
        pending = self.restarts.get(name)
        if pending is None or pending.at_s < child.started_s:
            restart = next_restart(pending, child.lived_s, now_s)
            self.restarts[name] = restart
            yield (
                f"{name} {ending(child)}; starting it again in {restart.at_s - now_s:g} s, "
                f"its log is {child.spec.log}"
            )
        elif now_s >= pending.at_s:
            self.children[name] = spawn(child.spec)
            yield f"{name} started again"

    def _record(self) -> None:
        marks = (ProcessMark.of(n, c.process.pid) for n, c in self.children.items())
        processes = tuple(mark for mark in marks if mark is not None)
        write_record(
            self.place, StackRecord(url=self.url, supervisor=own_mark(), processes=processes)
        )


def end_leftovers(place: Place) -> int:
    """Ends what a killed supervisor left here, so that its port is free; says how many that were.
    Raises StackError when a stack runs here.
    """
    refuse_running(place)
    place.make()
    with take_lock(place):
        return kill_leftovers(read_record(place))


@contextmanager
def running(place: Place, options: StackOptions) -> Iterator[Stack]:
    """A stack whose gateway answers that it is ready. It is stopped however the block ends."""
    place.make()
    with take_lock(place):
        kill_leftovers(read_record(place))
        adopt_orphans()
        keys = read_or_make_keys(place)
        with uninterrupted():
            postgres = start_postgres(place)
        stack = Stack(place=place, keys=keys, url=options.url, postgres=postgres)
        try:
            _start(stack, options)
            yield stack
        finally:
            with uninterrupted():
                stack.stop()


@contextmanager
def tended(stack: Stack) -> Iterator[None]:
    """Restarts what dies while the block goes on."""
    over = Event()

    def tend() -> None:
        while not over.wait(TEND_S):
            stack.tend()

    tending = Thread(target=tend)
    tending.start()
    try:
        yield
    finally:
        over.set()
        tending.join()


def _start(stack: Stack, options: StackOptions) -> None:
    migrate(stack.postgres.url)
    with connected(stack.postgres.url) as db:
        make_reader(db)
    # What processes of an earlier stack counted.
    shutil.rmtree(stack.place.metrics, ignore_errors=True)
    plan = plan_stack(stack.place, stack.keys, stack.postgres.url, options)
    for tier, specs in groupby(plan, key=lambda spec: spec.tier):
        for spec in specs:
            stack.launch(spec)
        if tier is Tier.SERVICE:
            _await_ready(stack)


def _await_ready(stack: Stack) -> None:
    """Raises StackError when a process ends again and again, or one is not ready in time."""
    deadline_s = time.monotonic() + READY_S
    # One client for all requests: to make one takes 25 ms of the processor that the others need.
    with httpx2.Client(base_url=stack.url, timeout=2) as gateway:
        while (waiting_for := _not_ready(stack, gateway)) is not None:
            for sentence in stack.tend():
                note(sentence)
            for name, child in stack.children.items():
                restart = stack.restarts.get(name)
                if restart is not None and restart.deaths >= DEATHS_AT_START and not child.alive:
                    raise StackError(f"{name} {ending(child)}; read {child.spec.log}")
            if time.monotonic() > deadline_s:
                raise StackError(
                    f"{waiting_for} was not ready within {READY_S:g} s; "
                    f"read {stack.log(waiting_for)}"
                )
            time.sleep(0.1)


def _not_ready(stack: Stack, gateway: httpx2.Client) -> str | None:
    """The name of a process to wait for, if there is one still."""
    if not _is_ready(gateway):
        return "gateway"
    return next(
        (
            name
            for name, child in stack.children.items()
            if not child.alive or child.spec.ready_text not in child.said()
        ),
        None,
    )


def _is_ready(gateway: httpx2.Client) -> bool:
    try:
        return gateway.get("/readyz").status_code == httpx2.codes.OK
    except httpx2.TransportError:
        return False


def _keep_previous_log(log: Path) -> None:
    if log.exists():
        log.replace(log.with_suffix(".log.1"))


def empty(place: Place, mark: str) -> None:
    """Removes what an earlier run left. Refuses a directory without the file `mark` in it."""
    refuse_running(place)
    if place.root.exists() and any(place.root.iterdir()):
        if not (place.root / mark).exists():
            raise StackError(
                f"{place.root} holds something else than a {mark}'s data; "
                "name a new directory with --state DIR"
            )
        kill_leftovers(read_record(place))
        note(f"emptying {place.root}")
        shutil.rmtree(place.root)
    place.make()
    (place.root / mark).touch()
