"""A benchmark says this: a table for people, the same rows and its claims as JSON for programs."""

import json
import os
import platform
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from operator import ge, le
from pathlib import Path
from typing import Self

import msgspec
import psutil
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from kernelzoo.errors import KernelZooError

Cell = str | int | float | None

WIDTH = 320
"""Columns of a printed table, also where the output is a file."""


class CannotMeasure(KernelZooError):
    """Something is missing. Only this makes a benchmark exit with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """`value` in `unit` was measured; `reach`, as in '≥ 1.8', is what it should be."""

    what: str
    value: float
    unit: str
    reach: str
    ok: bool

    @classmethod
    def at_least(cls, what: str, value: float, unit: str, bound: float) -> Self:
        return cls._of(what, value, unit, ("≥", ge), bound)

    @classmethod
    def at_most(cls, what: str, value: float, unit: str, bound: float) -> Self:
        return cls._of(what, value, unit, ("≤", le), bound)

    @classmethod
    def _of(
        cls,
        what: str,
        value: float,
        unit: str,
        sense: tuple[str, Callable[[float, float], bool]],
        bound: float,
    ) -> Self:
        sign, holds = sense
        ok = bool(holds(value, bound))
        return cls(what=what, value=value, unit=unit, reach=f"{sign} {bound:g}", ok=ok)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Rows share their keys, which are the columns of the table."""

    name: str
    machine: Mapping[str, Cell]
    rows: Sequence[Mapping[str, Cell]]
    claims: Sequence[Claim]

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def added(before: Report, report: Report) -> Report:
    """The rows and claims of `before`, with those of `report` in the place of such that say the
    same, or behind them. Rows say the same where all their texts are equal, claims where they are
    about the same. What it is made of was measured at the older of both commits or after it."""

    def told(row: Mapping[str, Cell]) -> frozenset[tuple[str, Cell]]:
        return frozenset((name, cell) for name, cell in row.items() if isinstance(cell, str))

    rows = {told(row): row for row in (*before.rows, *report.rows)}
    claims = {claim.what: claim for claim in (*before.claims, *report.claims)}
    kept = len(rows) > len(report.rows)
    commits = {each.machine.get("commit") for each in (before, report)} if kept else set()
    commit = _oldest(commits) if commits else report.machine.get("commit")
    return Report(
        name=report.name,
        machine={**before.machine, **report.machine, "commit": commit},
        rows=list(rows.values()),
        claims=list(claims.values()),
    )


def _oldest(commits: Collection[Cell]) -> str | None:
    """The commit that all others follow; None where that is not known."""
    known = [each for each in commits if isinstance(each, str) and not each.endswith(CHANGED)]
    if len(known) < len(commits):
        return None
    for each in known:
        try:
            for other in known:
                git("merge-base", "--is-ancestor", each, other)
        except subprocess.CalledProcessError:
            continue
        return each
    return None


def read(file: Path) -> Report:
    """Raises CannotMeasure for a file that no benchmark wrote."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Report)
    except msgspec.MsgspecError as error:
        raise CannotMeasure(f"{file} is no report: {error}") from error


def machine(**more: Cell) -> dict[str, Cell]:
    """Describes where and when a benchmark ran; `more` adds to it, such as the browser's
    version."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "cpu": cpu_model(),
        "core": core(),
        "logical_cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "apache_tvm": version("apache-tvm"),
        **more,
    }


REPOSITORY = Path(__file__).parent.parent
CHANGED = "+changes"
"""After the commit of a checkout that holds more than it."""


def commit() -> str | None:
    """Returns the commit that is measured, for `bench.stale`; None outside of a checkout. Changes
    of results do not count, as benchmarks that run one after another make them."""
    try:
        head = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--", ".", ":!bench/results")
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + CHANGED if changed else head


def git(*arguments: str) -> str:
    """Raises CalledProcessError, as for a commit that is not known here."""
    command = ("git", "-C", str(REPOSITORY), *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def emit(report: Report, json_path: Path | None, console: Console | None = None) -> None:
    """Prints the table and the claims; writes the report to `json_path`, if there is one."""
    out = console or Console(width=WIDTH)
    out.print(_rows(report))
    for claim in report.claims:
        holds = "holds" if claim.ok else "MISSED"
        out.print(f"{holds:6}  {claim.what}: {claim.value:.4g} {claim.unit} ({claim.reach})")
    if json_path is not None:
        json_path.write_text(report.as_json())


def _rows(report: Report) -> Table:
    table = Table(title=report.name, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    columns = list(report.rows[0]) if report.rows else []
    for name in columns:
        table.add_column(name, no_wrap=True, justify="right")
    for row in report.rows:
        table.add_row(*(_text(row[name]) for name in columns))
    return table


def _text(cell: Cell) -> str:
    match cell:
        case None:
            return "–"
        case float():
            return f"{cell:.4g}" if abs(cell) < 1000 else f"{cell:.0f}"
        case _:
            return str(cell)


CORES: Sequence[tuple[str, int, range, str]] = (
    ("AuthenticAMD", 23, range(0x30), "Zen"),
    ("AuthenticAMD", 23, range(0x30, 0x100), "Zen 2"),
    ("AuthenticAMD", 25, range(0x10), "Zen 3"),
    ("AuthenticAMD", 25, range(0x10, 0x20), "Zen 4"),
    ("AuthenticAMD", 25, range(0x20, 0x60), "Zen 3"),
    ("AuthenticAMD", 25, range(0x60, 0xB0), "Zen 4"),
    ("AuthenticAMD", 26, range(0x100), "Zen 5"),
    ("GenuineIntel", 6, range(106, 107), "Ice Lake"),
    ("GenuineIntel", 6, range(143, 144), "Sapphire Rapids"),
    ("GenuineIntel", 6, range(173, 175), "Granite Rapids"),
    ("GenuineIntel", 6, range(207, 208), "Emerald Rapids"),
)
"""Vendor, family, models and name, as the kernel's own headers have them
(arch/x86/include/asm/intel-family.h, arch/x86/kernel/cpu/amd.c)."""


def core() -> str | None:
    """The microarchitecture, to which shares of a limit belong; None where it is not known."""
    facts = _cpu_facts()
    vendor, family, model = (facts.get(key, "") for key in ("vendor_id", "cpu family", "model"))
    if not family.isdigit() or not model.isdigit():
        return None
    number = int(model)
    return next(
        (
            name
            for maker, known, models, name in CORES
            if maker == vendor and known == int(family) and number in models
        ),
        None,
    )


def cpu_model() -> str:
    """Describes the processor as Linux does; family and model tell what a cloud's name for it does
    not."""
    facts = _cpu_facts()
    if not facts:
        return platform.processor() or platform.machine()
    numbers = (f"{name} {facts[name]}" for name in ("cpu family", "model") if name in facts)
    return ", ".join((facts.get("model name", platform.machine()), *numbers))


def _cpu_facts() -> Mapping[str, str]:
    """Reads what Linux tells of the last processor; nothing elsewhere."""
    described = Path("/proc/cpuinfo")
    if not described.exists():
        return {}
    lines = (line.partition(":") for line in described.read_text().splitlines())
    return {key.strip(): value.strip() for key, _, value in lines}
