"""From the navigation to the first output: our runtime beside onnxruntime-web, visit by visit.

A first visit has a profile that nothing was ever loaded into, a second one that of the first.
Visits of both engines and of our settings take turns. The browser is idle before it navigates.
Each setting turns one knob of what a page gets that asks for nothing, as in NNV12's ablation, and
its row tells what the knob gains; claims take the settings that a page may ask for. A page that
says to run the network once is watched while the fastest kernels take over from those that cost
least. With `--gpu` both engines visit on WebGPU, too: that of hardware, or of software on a CPU.
"""

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.busy import CpuUsage
from bench.kernels.peers import peer_versions
from bench.models.cases import TINY, NetworkCase
from bench.models.costs import COSTS, Costs
from bench.models.files import network_files, publish
from bench.models.memory import ListeningSite, held_by_network
from bench.models.options import TUNED, add_gpu, add_untuned, chosen_cases, network_parser
from bench.models.ours import Prepared, prepare
from bench.models.page import OURS, PEER, HeldBytes
from bench.models.tuning import Choices
from bench.models.visits import Switched, TwoVisits, two_visits, worst
from bench.options import run
from bench.report import Cell, Claim, Report, machine
from bench.site import BenchSite
from workers.fleet.gpu import GpuChoice, gpu_flags

ROUNDS = 5
SETTLE_MS = 2500
"""A browser that starts is busy for two seconds, and it keeps code after two quiet ones."""
ABLATED = ("resnet50",)
THROTTLED_BYTES_S = 50e6 / 8
TINY_OPTIONS = (
    "--only",
    TINY.name,
    "--rounds",
    "1",
    "--settings",
    "usual",
    "kept weights",
    "graph",
    "int8",
    "for one run",
    "default kernels",
    "--gpu",
    GpuChoice.SOFTWARE.value,
    "--untuned",
    "--settle",
    "0",
    "--ablation",
    TINY.name,
)

FIRST = 0.5
SECOND = {"roberta": 0.45, "gpt2": 0.45}
SECOND_OF_OTHERS = 0.3
"""Shares of the peer's time."""
COLD_OVER_WARM = {"roberta": 1.4, "gpt2": 1.4, "resnet50": 1.8, "mobilenetv2": 4.0}
BEYOND_BYTES = 1.15
"""First output on a throttled network, over the time that the bytes alone take."""
MEMORY = 1.25
"""Peak of a page without the browser's code, over weights and activations."""
STALL_MS = 5


class Knob(StrEnum):
    """An ablation turns one of these on and off."""

    KERNELS = "kernel choice"
    WEIGHTS = "prepared weights"
    PIPELINE = "pipeline"
    MODULE = "one module"
    COMPRESSION = "compression"
    THREADS = "threads"
    TUNING = "tuned kernels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """An engine is loaded so. `options` is part of the page's address. Another than the usual one
    turns one knob `on`, or off, of the setting that is named `beside`."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    knob: Knob | None = None
    on: bool = True
    beside: str = "usual"

    @property
    def is_kept(self) -> bool:
        """True if a second visit reads weights from the device."""
        return any(self.options.items() >= each.items() for each in (KEPT, GRAPH))


USUAL = Setting(name="usual")
INT8 = {"int8": "1"}
KEPT = {"keep": "1"}
GRAPH = {"graph": "1"}
ONE_RUN = Setting(name="for one run", options={"runs": "1"}, knob=Knob.KERNELS)
SETTINGS = (
    USUAL,
    ONE_RUN,
    Setting(name="kept weights", options=KEPT, knob=Knob.WEIGHTS),
    Setting(name="graph", options=GRAPH, knob=Knob.WEIGHTS),
    Setting(name="no pipeline", options={"whole": "1"}, knob=Knob.PIPELINE, on=False),
    Setting(name="single modules", options={"single": "1"}, knob=Knob.MODULE, on=False),
    Setting(name="int8", options=INT8, knob=Knob.COMPRESSION),
    Setting(name="int8, kept", options=INT8 | KEPT, knob=Knob.WEIGHTS, beside="int8"),
    Setting(name="two threads", options={"threads": "2"}, knob=Knob.THREADS),
    Setting(name="default kernels", options={"defaults": "1"}, knob=Knob.TUNING, on=False),
)
"""`usual` is what a page gets that asks for nothing: the fastest kernels once they are warm, as one
module, while weights arrive. `for one run`: kernels that cost least until the first output. `int8`
are weights in fewer bits, deflated; `kept` those that the device keeps as kernels read them;
`graph` the whole model, opened by its key without the network where it is kept."""
ON_WEBGPU = "webgpu"
PEER_ON_WEBGPU = "peer on webgpu"
ASKED = ("usual", "for one run", "kept weights")
"""A page may ask for these beside the peer: on one thread, with the weights that the peer reads."""
EVERYWHERE = ("usual", "kept weights")
"""Each network is visited with these, and their memory is measured."""
FLOOR = Setting(name="floor")
"""An empty page with a worker that fetches a file. Its warm run reads as many bytes from the device
as a second visit with kept weights."""


def main() -> None:
    options = network_parser(
        "Whole networks from the navigation to the first output, beside the peer's."
    )
    names = [setting.name for setting in SETTINGS]
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--settings", nargs="+", choices=names, default=names)
    options.add_argument(
        "--ablation",
        nargs="*",
        default=list(ABLATED),
        metavar="NETWORK",
        help="networks of which each knob is turned; of others weights are kept or not",
    )
    options.add_argument("--settle", type=int, default=SETTLE_MS, help="ms of rest around a visit")
    options.add_argument("--throttled", action="store_true", help="at 50 Mbit/s, too")
    add_gpu(options, "on WebGPU, too, on that adapter")
    add_untuned(options)
    run(options, measure, tiny=TINY_OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    engine: str
    setting: Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Visited:
    """Visits of one network at one speed of the network, by contestant. `held` is what pages hold
    at most that nobody watches, beyond one with the inputs alone, by contestant and visit."""

    case: NetworkCase
    prepared: Prepared
    tuned: bool
    bytes_s: float | None
    before: CpuUsage
    held: Mapping[tuple[str, int], HeldBytes]
    visits: dict[str, list[TwoVisits]] = field(default_factory=dict)

    def first_ms(self, name: str, visit: int) -> float:
        return median(each[visit].elapsed_ms for each in self.visits[name])

    def warm_ms(self, name: str) -> float:
        """The least, as any run may be disturbed."""
        return min(second.warm_ms for _, second in self.visits[name])

    def of_memory(self, name: str, visit: int) -> float | None:
        held = self.held.get((name, visit))
        return None if held is None else held.own_bytes / self.prepared.memory_bytes

    def gain(self, setting: Setting, visit: int) -> float | None:
        """The first output without the knob over that with it."""
        if setting.knob is None or setting.beside not in self.visits:
            return None
        other_ms, own_ms = self.first_ms(setting.beside, visit), self.first_ms(setting.name, visit)
        return other_ms / own_ms if setting.on else own_ms / other_ms

    def floor_ms(self, setting: Setting, visit: int) -> float:
        """Returns what the browser takes of a visit before an engine computes anything."""
        page_ms = self.first_ms(FLOOR.name, visit)
        kept = visit == 1 and setting.is_kept
        return page_ms + self.warm_ms(FLOOR.name) if kept else page_ms

    def switched(self, name: str) -> Switched | None:
        """The worst of all visits; none where no kernel was switched."""
        told = [second.switched for _, second in self.visits[name] if second.switched]
        told = [each for each in told if each.swaps]
        return worst(told) if told else None

    def of_bytes(self, name: str, visit: int) -> float | None:
        """The first output over the time that the weights alone take on a throttled network, which
        only a first visit fetches."""
        if self.bytes_s is None or visit > 0:
            return None
        int8 = any(each.name == name and each.options.items() >= INT8.items() for each in SETTINGS)
        fetched = self.prepared.int8_bytes if int8 else self.prepared.weights_bytes
        return (
            None if fetched is None else self.first_ms(name, visit) * self.bytes_s / 1000 / fetched
        )


def measure(options: Namespace) -> Report:
    choices = Choices(file=options.folder / TUNED)
    costs = Costs(file=options.folder / COSTS, choices=choices)
    speeds = (None, THROTTLED_BYTES_S) if options.throttled else (None,)
    held: list[Visited] = []
    try:
        for case in chosen_cases(options):
            _visit_all(case, costs, speeds, options, held)
    except KeyboardInterrupt:
        if not held:
            raise
        print("interrupted: the report has what was measured", file=sys.stderr)
    return Report(
        name="models-cold",
        machine=machine(**peer_versions()),
        rows=[row for each in held for row in _rows(each)],
        claims=[claim for each in held for claim in _claims(each)],
    )


def _visit_all(
    case: NetworkCase,
    costs: Costs,
    speeds: Sequence[float | None],
    options: Namespace,
    held: list[Visited],
) -> None:
    """Adds to `held` what was measured, also where it is interrupted."""
    contestants = _contestants(case, options)
    with ListeningSite.serving() as site, TemporaryDirectory() as folder:
        files = network_files(options.folder, case)
        prepared = prepare(
            site,
            files,
            costs.choices,
            Path(folder),
            tune=not options.untuned,
            int8=any("int8" in each.setting.options for each in contestants),
            variants=True,
            costs=costs if any(each.setting is ONE_RUN for each in contestants) else None,
        )
        address = publish(site, files, prepared.address)
        for bytes_s in speeds:
            visited = Visited(
                case=case,
                prepared=prepared,
                tuned=not options.untuned,
                bytes_s=bytes_s,
                before=CpuUsage.now(),
                held=_held(site, case, address, contestants) if bytes_s is None else {},
            )
            try:
                _rounds(site, address, contestants, visited, options)
            finally:
                if PEER in visited.visits and FLOOR.name in visited.visits:
                    held.append(visited)


def _held(
    site: ListeningSite, case: NetworkCase, address: str, contestants: Sequence[Contestant]
) -> Mapping[tuple[str, int], HeldBytes]:
    """Measures what visits hold with what a page may ask for, and a first one with the peer. What
    the smallest network holds is the browser's own."""
    if case == TINY:
        return {}

    def held(each: Contestant, visit: int) -> HeldBytes:
        network = "&".join((address, *(f"{name}=1" for name in each.setting.options)))
        return held_by_network(site, network, each.engine, visit + 1).network

    with site.kept_by_browsers(None):
        return {
            (each.setting.name, visit): held(each, visit)
            for each in contestants
            for visit in (0, 1)
            if each.setting.name in (EVERYWHERE if visit else (*EVERYWHERE, PEER))
        }


def _rounds(
    site: BenchSite,
    address: str,
    contestants: Sequence[Contestant],
    visited: Visited,
    options: Namespace,
) -> None:
    with site.kept_by_browsers(visited.bytes_s):
        for round_ in range(options.rounds):
            for each in contestants:
                asked = {"cold": each.engine, "network": address, **each.setting.options}
                if each.setting is FLOOR:
                    asked["bytes"] = str(visited.prepared.weights_bytes)
                watched = each.setting is ONE_RUN and visited.bytes_s is None
                pair = two_visits(
                    site.url, asked, options.settle, each.setting.flags, watched=watched
                )
                visited.visits.setdefault(each.setting.name, []).append(pair)
                first, second = (f"{visit.elapsed_ms:.0f}" for visit in pair)
                where = f"{visited.case.name}, round {round_ + 1}, {each.setting.name}"
                print(f"{where}: {first} ms, then {second}", file=sys.stderr, flush=True)


def _contestants(case: NetworkCase, options: Namespace) -> tuple[Contestant, ...]:
    asked = options.settings if case.name in options.ablation else EVERYWHERE
    names = [name for name in asked if name in options.settings]
    ours = (Contestant(engine=OURS, setting=each) for each in SETTINGS if each.name in names)
    peer = Contestant(engine=PEER, setting=Setting(name=PEER))
    floor = Contestant(engine="floor", setting=FLOOR)
    on_gpu = () if options.gpu is None else _gpu_contestants(GpuChoice(options.gpu))
    return (*ours, peer, floor, *on_gpu)


def _gpu_contestants(gpu: GpuChoice) -> tuple[Contestant, ...]:
    flags = tuple(gpu_flags(gpu))
    own = Setting(name=ON_WEBGPU, options={"webgpu": "1"}, flags=flags)
    peer = Setting(name=PEER_ON_WEBGPU, flags=flags)
    return Contestant(engine=OURS, setting=own), Contestant(engine="peer-webgpu", setting=peer)


def _rows(held: Visited) -> Iterator[dict[str, Cell]]:
    """`gain`: the first output without the row's knob over that with it, at the same visit.
    `of_peer`: the first output over the peer's, that of `webgpu` over the peer's on WebGPU.
    `floor_ms`: what an empty page takes at the same visit, and reading the bytes of kept weights.
    `of_memory`: what the page holds without the browser's code, over weights and activations.
    `stall_ms`, `delay_ms`: how late a timer of the page came and how long an inference waited at
    most while kernels were switched, and `quiet_…` the same once none was."""
    others_busy = CpuUsage.now().others_since(held.before)
    for name, pairs in held.visits.items():
        setting = next((each for each in SETTINGS if each.name == name), Setting(name=name))
        for visit, told in enumerate(("first", "second")):
            elapsed_ms = held.first_ms(name, visit)
            yield {
                "network": held.case.name,
                "mbit_s": _speed(held.bytes_s),
                "setting": name,
                "knob": f"{setting.knob} {'on' if setting.on else 'off'}" if setting.knob else None,
                "visit": told,
                "rounds": len(pairs),
                "median_ms": elapsed_ms,
                "least_ms": min(each[visit].elapsed_ms for each in pairs),
                "floor_ms": held.floor_ms(setting, visit),
                "warm_ms": held.warm_ms(name),
                "of_warm": elapsed_ms / held.warm_ms(name),
                "gain": held.gain(setting, visit),
                "of_peer": elapsed_ms / held.first_ms(_peer_of(name), visit),
                "of_bytes": held.of_bytes(name, visit),
                "of_memory": held.of_memory(name, visit),
                **_noticed(held.switched(name) if visit == 1 else None),
                "others_busy": others_busy,
            }


def _noticed(told: Switched | None) -> dict[str, Cell]:
    return {
        "swaps": told.swaps if told else None,
        "stall_ms": told.switching.stall_ms if told else None,
        "quiet_stall_ms": told.quiet.stall_ms if told else None,
        "delay_ms": told.switching.delay_ms if told else None,
        "quiet_delay_ms": told.quiet.delay_ms if told else None,
    }


def _speed(bytes_s: float | None) -> str:
    """A text, by which rows are told apart."""
    return "local" if bytes_s is None else f"{bytes_s * 8 / 1e6:g}"


def _peer_of(name: str) -> str:
    return PEER_ON_WEBGPU if name in (ON_WEBGPU, PEER_ON_WEBGPU) else PEER


def _claims(held: Visited) -> Iterator[Claim]:
    """They take the settings that a page may ask for, whichever is faster at its visit; those on
    WebAssembly are of tuned kernels."""
    name = held.case.name
    if ON_WEBGPU in held.visits and held.bytes_s is None:
        share = held.first_ms(ON_WEBGPU, 0) / held.first_ms(PEER_ON_WEBGPU, 0)
        yield Claim.at_most(f"{name}: first output on WebGPU", share, "of the peer's", FIRST)
    ours = [each for each in held.visits if each in ASKED]
    if not ours or held.case == TINY or not held.tuned:
        return
    first, second = (min(held.first_ms(each, visit) for each in ours) for visit in (0, 1))
    if held.bytes_s is not None:
        alone_ms = held.prepared.weights_bytes / held.bytes_s * 1000
        what = f"{name}: first output at {held.bytes_s * 8 / 1e6:g} Mbit/s"
        yield Claim.at_most(what, first / alone_ms, "of the bytes' time", BEYOND_BYTES)
        return
    share = first / held.first_ms(PEER, 0)
    yield Claim.at_most(f"{name}: first output, first visit", share, "of the peer's", FIRST)
    share = second / held.first_ms(PEER, 1)
    bound = SECOND.get(name, SECOND_OF_OTHERS)
    yield Claim.at_most(f"{name}: first output, second visit", share, "of the peer's", bound)
    if name in COLD_OVER_WARM:
        warm_ms = min(held.warm_ms(each) for each in ours)
        what = f"{name}: second visit over warm"
        least_ms = held.first_ms(FLOOR.name, 1) + warm_ms
        unit = f"×, {least_ms / warm_ms:.1f} for an empty page and a warm run"
        yield Claim.at_most(what, second / warm_ms, unit, COLD_OVER_WARM[name])
    for each, visit in product(ours, (0, 1)):
        if (most := held.of_memory(each, visit)) is not None:
            at = f"{each}, {'second' if visit else 'first'} visit"
            what = f"{name}: peak memory without the browser's code, {at}"
            yield Claim.at_most(what, most, "of weights and activations", MEMORY)
    if ONE_RUN.name in held.visits and (switched := held.switched(ONE_RUN.name)) is not None:
        for what, longest, quiet in (
            ("stall of the page", switched.switching.stall_ms, switched.quiet.stall_ms),
            ("delay of an inference", switched.switching.delay_ms, switched.quiet.delay_ms),
        ):
            text = f"{name}: longest {what} while kernels are switched"
            yield Claim.at_most(text, longest, f"ms, {quiet:.1f} when quiet", STALL_MS)


if __name__ == "__main__":
    main()
