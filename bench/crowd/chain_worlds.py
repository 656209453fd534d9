"""The device classes among which `chain` holds some out: recorded, of a formula, and simulated."""

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256

from bench.crowd.chain_zoo import HeldOutWorld
from bench.crowd.simulate import WORKLOADS
from cli.simulate.members import session_of, visitor
from cli.simulate.scenario import FAMILY, Attack, Scenario
from cli.simulate.world import World as Simulated
from fixtures.analytic import CORES, observed
from fixtures.recorded import dataset
from kernelzoo.domain.device import DeviceClass, Engine, PrimitiveVector
from kernelzoo.domain.target import Target, TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.cost_model.dataset import Observation, ProbedDevice, races
from services.tuner.schedules.registry import lite_space

EVEN, ODD = slice(0, None, 2), slice(1, None, 2)
CLASSES = 200


def recorded() -> HeldOutWorld:
    """Each setting of an engine stands for a device of its own, all of one architecture."""
    found = dataset.read()
    every = [_of_its_own(each) for each in found.observations()]
    parts = (EVEN, ODD) if found.fewest_passes > 1 else ()
    return HeldOutWorld(
        name="recorded",
        races=races(every),
        architectures={each.device.hardware: "x86-64" for each in every},
        held_out=tuple(dict.fromkeys(each.device.hardware for each in every)),
        halves=tuple(races(map(_of_its_own, found.observations(part))) for part in parts),
    )


def _of_its_own(each: Observation) -> Observation:
    device_class = replace(each.device.device_class, device_id=_id(each.device.hardware))
    return replace(each, device=replace(each.device, device_class=device_class))


def _id(name: str) -> str:
    return sha256(name.encode()).hexdigest()[:16]


def analytic() -> HeldOutWorld:
    """Cores with 16 registers are of one architecture, those with 32 of another."""
    of_cores = {core.probed.hardware: f"registers-{core.registers}" for core in CORES}
    return HeldOutWorld(
        name="analytic",
        races=races(observed()),
        architectures=of_cores,
        held_out=tuple(of_cores),
    )


def simulated() -> HeldOutWorld:
    """The classes of `kernelzoo simulate`, its workloads and its times; one of each family is held
    out."""
    crowd = Scenario(
        attack=Attack.COLLUDE,
        malicious_share=0,
        classes=CLASSES,
        identities=1,
        workloads=WORKLOADS,
        seed=1,
    )
    names = [crowd.device(number) for number in range(CLASSES)]
    every = [
        each
        for workload in map(Workload.parse, crowd.workloads)
        for name in names
        for each in _timed(name, workload, crowd.seed)
    ]
    return HeldOutWorld(
        name="simulated",
        races=races(every),
        architectures={name: name.partition("/")[0] for name in names},
        held_out=tuple(names[FAMILY - 1 :: FAMILY]),
    )


def _timed(name: str, workload: Workload, seed: int) -> Iterable[Observation]:
    device, truly = _simulated_device(name), Simulated(seed=seed, flops=workload.flops)
    for candidate in lite_space(workload, TargetKind.WASM):
        time_ns = truly.call_ns(name, candidate.candidate_id)
        yield Observation(device=device, candidate=candidate, relative_time=time_ns)


def _simulated_device(name: str) -> ProbedDevice:
    session = session_of(visitor(name))
    return ProbedDevice(
        hardware=name,
        device_class=DeviceClass(
            device_id=_id(name),
            rho=PrimitiveVector.parse(session.rho),
            target=Target.of(session.target, tuple(session.features)),
        ),
        engine=Engine(name=session.engine.name, version=session.engine.version),
        peak_gflops=session.peak_gflops,
    )
