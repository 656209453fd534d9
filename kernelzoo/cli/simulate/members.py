"""Who takes part in a scenario, from which network, on what device."""

from dataclasses import dataclass
from random import Random

from kernelzoo.cli.simulate.scenario import Attack, Scenario
from kernelzoo.cli.simulate.world import PEAK_GFLOPS
from kernelzoo.domain.target import TargetKind
from services.gateway.wire.sessions import EngineWire, HardwareWire, SessionRequest

ENGINE = EngineWire(name="Chromium", version="156")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """`address` is of 127.0.0.0/8, so that every member can have a network of its own."""

    device: str
    name: str
    address: str
    lies: bool


def members_of(scenario: Scenario) -> list[Member]:
    """In an order of chance. All but Sybils come from a network each, those from two of a class."""
    made = [
        _member(scenario, number, place)
        for number in range(scenario.classes)
        for place in range(scenario.identities)
    ]
    Random(scenario.seed).shuffle(made)
    return made


def _member(scenario: Scenario, number: int, place: int) -> Member:
    lies = place < scenario.liars_per_class
    together = lies and scenario.attack is Attack.SYBIL
    network = number * scenario.identities + (place % 2 if together else place)
    device = scenario.device(number)
    return Member(
        device=device,
        name=f"{device}/{place}",
        # A network is a /24. 127.0.0.0/24 is left to whoever else is on this machine.
        address=f"127.{1 + network // 250}.{network % 250}.{1 + place % 250}",
        lies=lies,
    )


def session_of(member: Member) -> SessionRequest:
    """The family's name stands where a browser tells its processor's architecture."""
    family, _, relative = member.device.partition("/")
    hardware = HardwareWire(
        cpu_architecture=family,
        logical_cores=2 * (1 + int(relative)),
        gpu_vendor="",
        gpu_architecture="",
    )
    return SessionRequest(
        hardware=hardware,
        engine=ENGINE,
        target=TargetKind.WASM,
        features=["relaxed-simd", "simd128"],
        rho="r1-0",
        peak_gflops=PEAK_GFLOPS,
        isolated=True,
    )
