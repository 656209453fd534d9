"""Measures what the fallback chain serves where nobody has voted, against the default kernel.

    python -m bench.crowd.chain [--only WORLD ...] [--json FILE]

Held out are each device class in turn, and each fifth of the shapes on all classes. Their votes are
taken out of a real database that knows the rest, what classes share is aggregated anew, and
the gateway's own query and rule answer. A regret is how much longer the served kernel takes on a
class than the fastest of the space (`chain_regret`). Worlds (`chain_worlds`), reported apart: what
settings of three engines measured on one machine (fixtures/recorded); cores of an analytic model
that differ in registers, cache and fused products (fixtures/analytic.py); and the device
classes of `kernelzoo simulate`, of which four make a family.

Columns: `of` so many classes or shapes; `from` and `to` bound the chain's mean with 95 %; `worst
tenth` is the share of all regret that a tenth of the answers have; `measured` regrets have the luck
of the fastest in them; so many answers are `worse` than the default. `model` is its first choice.
"""

import logging
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import fmean

import structlog

from bench.crowd.chain_regret import Regret, Spread, interval, times
from bench.crowd.chain_worlds import analytic, recorded, simulated
from bench.crowd.chain_zoo import QUORUM, HeldOutWorld, database, fill, order, without, workloads
from bench.options import parser, run
from bench.report import Cell, Claim, Report, machine
from kernelzoo.domain.kinship import families
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import HitLevel
from kernelzoo.store import chain
from kernelzoo.store.blocking import Database, fetch_all
from services.gateway.chain import choose
from services.tuner.cost_model.dataset import Race, fingerprint
from services.tuner.cost_model.model import CostModel, train

REGRET = 0.10
FOLDS = 5
MODELS = 12
"""A fifth of the classes is held out where there are more, else one: a model has not seen a fifth
of them, else one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutServed:
    """A workload on a class that is held out. Regrets: of the chain, of the default kernel, and of
    the first choice of a cost model that has not seen it either. `cluster`: what was held out."""

    cluster: str
    level: str
    chain: Regret
    default: Regret
    model: Regret


HeldOut = Callable[[Database, HeldOutWorld], Iterator[HeldOutServed]]


def measure(options: Namespace) -> Report:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    rows: list[dict[str, Cell]] = []
    claims: list[Claim] = []
    for name in options.only or WORLDS:
        make, ways = WORLDS[name]
        world = make()
        if options.classes:
            world, ways = replace(world, held_out=world.held_out[: options.classes]), ("class",)
        with database() as db:
            fill(db, world)
            for held_out in ways:
                served = list(HELD_OUT[held_out](db, world))
                rows += _rows(name, held_out, served)
                if held_out == "class":
                    claims += _claims(name, served)
    return Report(name="chain", machine=machine(), rows=rows, claims=claims)


def by_class(db: Database, world: HeldOutWorld) -> Iterator[HeldOutServed]:
    """Others know every workload, this class none, and it never opened a session."""
    folds = len(world.held_out) if len(world.held_out) <= MODELS else FOLDS
    for fold in range(folds):
        unseen = set(world.held_out[fold::folds])
        model = train([race for race in world.races if race.device.hardware not in unseen])
        for name in sorted(unseen):
            held_out = [race for race in world.races if race.device.hardware == name]
            with without(db, _keys(held_out)):
                for race in held_out:
                    yield _served(db, world, race, model, race.device.hardware)


def by_shape(db: Database, world: HeldOutWorld) -> Iterator[HeldOutServed]:
    """Each class knows other shapes, and no class this one; the model is published."""
    return _by_shape(db, world, foretold=True)


def by_shape_alone(db: Database, world: HeldOutWorld) -> Iterator[HeldOutServed]:
    """Holds shapes out, without a model."""
    return _by_shape(db, world, foretold=False)


def _by_shape(db: Database, world: HeldOutWorld, *, foretold: bool) -> Iterator[HeldOutServed]:
    for fold in range(FOLDS):
        keys = {key for key in workloads(world) if int(fingerprint(key), 16) % FOLDS == fold}
        held_out = [race for race in world.races if race.workload_key in keys]
        if held_out:
            model = train([race for race in world.races if race.workload_key not in keys])
            with without(db, _keys(held_out)):
                if foretold:
                    order(db, held_out, model)
                for race in held_out:
                    yield _served(db, world, race, model, race.workload_key)


def _keys(held_out: Iterable[Race]) -> Iterator[tuple[str, str]]:
    return ((race.workload_key, str(race.device.device_class)) for race in held_out)


def _served(
    db: Database, world: HeldOutWorld, race: Race, model: CostModel, cluster: str
) -> HeldOutServed:
    truth = world.truth(race)
    default, *_ = times(race)
    kin = families(world.hardware(race.device), TargetKind.WASM)
    offered = chain.offers(
        [race.workload_key], race.device.device_class, space="", families=kin, quorum=QUORUM
    )
    # What the class never measured has no regret to tell; the next of the same step is taken.
    known = (offer for offer in fetch_all(db, offered) if offer.candidate_id in truth.known)
    offer = choose(known).get(race.workload_key)
    foretold = model.order([each.candidate for each in race.observations], race.device)
    first = next(each for each in foretold if each.candidate_id in truth.known)
    return HeldOutServed(
        cluster=cluster,
        level=offer.level if offer else HitLevel.DEFAULT,
        chain=truth.regret(offer.candidate_id if offer else default),
        default=truth.regret(default),
        model=truth.regret(first.candidate_id),
    )


def _rows(world: str, held_out: str, served: list[HeldOutServed]) -> Iterator[dict[str, Cell]]:
    for level in (*dict.fromkeys(each.level for each in served), "all"):
        part = [each for each in served if level in (each.level, "all")]
        low, high = _interval(part, SIDES["chain"])
        yield {
            "world": world,
            "held out": held_out,
            "step": str(level),
            "answers": len(part),
            "of": len({each.cluster for each in part}),
            **_spread("chain", part, SIDES["chain"]),
            "from": round(low, 3),
            "to": round(high, 3),
            "worst tenth": round(_worst([each.chain.fresh for each in part]), 2),
            "measured": round(fmean(each.chain.measured for each in part), 3),
            **_spread("default", part, SIDES["default"]),
            "default measured": round(fmean(each.default.measured for each in part), 3),
            "model": round(fmean(each.model.fresh for each in part), 3),
            "worse": sum(each.chain.fresh > each.default.fresh for each in part),
        }


Side = Callable[[HeldOutServed], float]

SIDES: Mapping[str, Side] = {
    "chain": lambda each: each.chain.fresh,
    "default": lambda each: each.default.fresh,
}


def _spread(name: str, served: Sequence[HeldOutServed], side: Side) -> dict[str, Cell]:
    spread = Spread.of([side(each) for each in served])
    return {
        name: round(spread.mean, 3),
        f"{name} p50": round(spread.median, 3),
        f"{name} p95": round(spread.p95, 3),
    }


def _worst(regrets: list[float]) -> float:
    """The share of all regret that a tenth of the answers have."""
    worst = sorted(regrets, reverse=True)[: ceil(len(regrets) / 10)]
    return sum(worst) / sum(regrets) if any(regrets) else 0.0


def _interval(served: Iterable[HeldOutServed], side: Side) -> tuple[float, float]:
    clusters: dict[str, list[float]] = defaultdict(list)
    for each in served:
        clusters[each.cluster].append(side(each))
    return interval(list(clusters.values()))


def _claims(world: str, served: list[HeldOutServed]) -> list[Claim]:
    found, default = (fmean(side(each) for each in served) for side in SIDES.values())
    what = f"{world}: mean regret on a class held out"
    measured = fmean(each.chain.measured for each in served)
    claims = [
        Claim.at_most(what, found, "", REGRET),
        Claim.at_most(f"{what}, over the default's", found / default, "", 1),
    ]
    if measured != found:
        claims.append(Claim.at_most(f"{what}, as measured", measured, "", REGRET))
    return claims


HELD_OUT: Mapping[str, HeldOut] = {
    "class": by_class,
    "shape": by_shape,
    "shape, no model": by_shape_alone,
}
WORLDS: Mapping[str, tuple[Callable[[], HeldOutWorld], tuple[str, ...]]] = {
    "recorded": (recorded, tuple(HELD_OUT)),
    "analytic": (analytic, tuple(HELD_OUT)),
    "simulated": (simulated, ("class",)),
}
"""Worlds, with the ways to hold out. Shapes of the simulated world have nothing in common."""


if __name__ == "__main__":
    options = parser(__doc__ or "")
    options.add_argument("--only", nargs="*", choices=list(WORLDS))
    options.add_argument("--classes", type=int, help="hold out that many, and no shapes")
    run(options, measure, tiny=("--only", "analytic", "--classes", "1"))
