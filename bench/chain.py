"""What the fallback chain serves where nobody has voted, against the default kernel.

    python -m bench.chain [--json FILE]

Held out are each device class in turn, and each fifth of the shapes on all classes. Their votes are
taken out of a real database that knows the rest, what classes have in common is pooled anew, and
the gateway's own query and rule answer. A regret is how much longer the served kernel takes on a
class than the fastest of the space. Three worlds, reported apart: what seven settings of two
engines measured on one machine (tests/recorded); cores of an analytic model that differ in
registers, cache and fused products (tests/unit/cost_model/analytic); and the devices of
`kernelzoo simulate`, each of which has tastes that nothing foretells.
"""

import logging
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from statistics import fmean, median

import structlog

from bench.chain_zoo import QUORUM, World, database, fill, order, without, workloads
from bench.options import parser, run
from bench.report import Cell, Claim, Report, machine
from kernelzoo.cli.simulate.world import World as Simulated
from kernelzoo.domain.kinship import families
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import HitLevel
from kernelzoo.store import chain
from kernelzoo.store.blocking import Database, fetch_all
from services.gateway.chain import choose
from services.tuner.cost_model.heldout import mark
from services.tuner.cost_model.model import CostModel, train
from services.tuner.cost_model.observation import Observation, Race, races
from tests.recorded import dataset
from tests.unit.cost_model.analytic import CORES, WORKLOADS, observed

REGRET = 0.10
FOLDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A workload on a class that is held out. Regrets: of the chain, of the default kernel, and of
    the first choice of a cost model that has not seen it either."""

    level: str
    chain: float
    default: float
    model: float


def measure(_: Namespace) -> Report:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    rows: list[dict[str, Cell]] = []
    claims: list[Claim] = []
    for world in (recorded(), analytic(), simulated()):
        with database() as db:
            fill(db, world)
            found = {
                "class": list(by_class(db, world)),
                "shape": list(by_shape(db, world, foretold=True)),
                "shape, no model": list(by_shape(db, world, foretold=False)),
            }
        for held_out, served in found.items():
            rows += _rows(world.name, held_out, served)
        claims += _claims(world.name, found["class"])
    return Report(name="chain", machine=machine(), rows=rows, claims=claims)


def recorded() -> World:
    """Each setting of an engine stands for a device of its own, all of one architecture."""
    every = [_of_its_own(each) for each in dataset.read().observations()]
    return _world("recorded", every, {each.device.hardware: "x86-64" for each in every})


def _of_its_own(each: Observation) -> Observation:
    device_id = sha256(each.device.hardware.encode()).hexdigest()[:16]
    device_class = replace(each.device.device_class, device_id=device_id)
    return replace(each, device=replace(each.device, device_class=device_class))


def analytic() -> World:
    """Cores with 16 registers are of one architecture, those with 32 of another."""
    of_cores = {core.probed.hardware: f"registers-{core.registers}" for core in CORES}
    return _world("analytic", observed(), of_cores)


def simulated() -> World:
    """The candidates and classes of `analytic`, with the times of `kernelzoo simulate`."""
    every = [
        Observation(
            device=each.device,
            candidate=each.candidate,
            relative_time=Simulated(seed=1, flops=each.candidate.workload.flops).call_ns(
                each.device.hardware, each.candidate.candidate_id
            ),
        )
        for each in observed(CORES, WORKLOADS[:4])
    ]
    return _world("simulated", every, {core.probed.hardware: "one" for core in CORES})


def _world(name: str, every: Iterable[Observation], architectures: dict[str, str]) -> World:
    return World(name=name, races=races(every), architectures=architectures)


def by_class(db: Database, world: World) -> Iterator[Served]:
    """Others know every workload, this class none, and it never opened a session."""
    for name in world.architectures:
        held_out = [race for race in world.races if race.device.hardware == name]
        model = train([race for race in world.races if race.device.hardware != name])
        with without(db, _keys(held_out)):
            yield from (_served(db, world, race, model) for race in held_out)


def by_shape(db: Database, world: World, *, foretold: bool) -> Iterator[Served]:
    """Each class knows other shapes, and no class this one; `foretold`: a model is published."""
    for fold in range(FOLDS):
        keys = {key for key in workloads(world) if int(mark(key), 16) % FOLDS == fold}
        held_out = [race for race in world.races if race.workload_key in keys]
        rest = [race for race in world.races if race.workload_key not in keys]
        if held_out:
            model = train(rest)
            with without(db, _keys(held_out)):
                if foretold:
                    order(db, held_out, model)
                yield from (_served(db, world, race, model) for race in held_out)


def _keys(held_out: Iterable[Race]) -> Iterator[tuple[str, str]]:
    return ((race.workload_key, str(race.device.device_class)) for race in held_out)


def _served(db: Database, world: World, race: Race, model: CostModel) -> Served:
    times = {each.candidate.candidate_id: each.relative_time for each in race.observations}
    default, *_ = times
    kin = families(world.hardware(race.device), TargetKind.WASM)
    offered = chain.offers(
        [race.workload_key], race.device.device_class, space="", families=kin, quorum=QUORUM
    )
    # What the class never measured has no regret to tell; the next of the same step is taken.
    known = (offer for offer in fetch_all(db, offered) if offer.candidate_id in times)
    offer = choose(known).get(race.workload_key)
    first = model.order([each.candidate for each in race.observations], race.device)[0]

    def regret(candidate_id: str) -> float:
        return times[candidate_id] / min(times.values()) - 1

    return Served(
        level=offer.level if offer else HitLevel.DEFAULT,
        chain=regret(offer.candidate_id if offer else default),
        default=regret(default),
        model=regret(first.candidate_id),
    )


def _rows(world: str, held_out: str, served: list[Served]) -> Iterator[dict[str, Cell]]:
    for level in (*dict.fromkeys(each.level for each in served), "all"):
        part = [each for each in served if level in (each.level, "all")]
        yield {
            "world": world,
            "held out": held_out,
            "step": str(level),
            "answers": len(part),
            **{name: round(_mean(part, side), 3) for name, side in SIDES.items()},
            "chain, median": round(median(each.chain for each in part), 3),
            "default, median": round(median(each.default for each in part), 3),
            "worse than default": sum(each.chain > each.default for each in part),
        }


def _mean(served: list[Served], side: Callable[[Served], float]) -> float:
    return fmean(side(each) for each in served)


SIDES: dict[str, Callable[[Served], float]] = {
    "chain": lambda each: each.chain,
    "default": lambda each: each.default,
    "model's first": lambda each: each.model,
}


def _claims(world: str, served: list[Served]) -> list[Claim]:
    found, default = _mean(served, SIDES["chain"]), _mean(served, SIDES["default"])
    what = f"{world}: mean regret on a class held out"
    return [
        Claim.at_most(what, found, "", REGRET),
        Claim.at_most(f"{what}, over the default's", found / default, "", 1),
    ]


if __name__ == "__main__":
    run(parser(__doc__ or ""), measure)
