"""Draws who takes part in a scenario, from which network, on what device."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from cli.simulate.scenario import FAMILY, INVENTED, Attack, Raid, Scenario
from cli.simulate.world import PEAK_GFLOPS
from kernelzoo.domain.device import Hardware
from kernelzoo.domain.target import TargetKind
from services.gateway.wire.sessions import EngineWire, HardwareWire, SessionRequest

ENGINE = EngineWire(name="Chromium", version="156")
RHO = "r1-0"
FEATURES = ("relaxed-simd", "simd128")
UNSEEN = FAMILY
"""The relative that no member has: what a family serves a device that nobody measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A visit. `device` is what it truly runs on, or has in mind; `hardware` what it tells.

    `identity`: members of the same name keep one identity. `address` is of 127.0.0.0/8, so that
    every member can have a network of its own. `invented`: of a class that exists nowhere.
    """

    device: str
    hardware: Hardware
    name: str
    identity: str
    address: str
    lies: bool
    invented: bool = False


def members_of(scenario: Scenario) -> list[Member]:
    """Draws who measures, in an order of chance. But for Sybils and those who mint identities each
    comes from a network of its own.
    """
    made = [
        member
        for number in range(scenario.classes)
        for place in range(scenario.identities)
        for member in _members(scenario, number, place)
    ]
    made += _inventors(scenario)
    Random(scenario.seed).shuffle(made)
    return made


def phases_of(scenario: Scenario) -> tuple[list[Member], ...]:
    """Each waits until what was told in the one before is counted."""
    members = members_of(scenario)
    if not scenario.tactics.first:
        return (members,)
    return tuple(
        phase
        for phase in ([m for m in members if m.lies], [m for m in members if not m.lies])
        if phase
    )


def raiders_of(scenario: Scenario) -> list[Member]:
    """Attackers as they visit each class, whether or not they measure there."""
    return [
        member
        for number in range(scenario.classes)
        for place in range(scenario.attackers_per_class)
        for member in _attackers(scenario, number, place)
    ]


def _members(scenario: Scenario, number: int, place: int) -> Iterator[Member]:
    if place >= scenario.attackers_per_class:
        device = scenario.device(number)
        address = _address(number * scenario.identities + place, place)
        yield visitor(device, name=f"{device}/{place}", address=address)
    elif scenario.tactics.votes:
        yield from _attackers(scenario, number, place)


def _attackers(scenario: Scenario, number: int, place: int) -> Iterator[Member]:
    """The first places of the first class are those of the networks that lie everywhere."""
    if scenario.peaceful:
        return
    device, tactics = scenario.device(number), scenario.tactics
    if not tactics.everywhere:
        together = scenario.attack is Attack.SYBIL
        network = number * scenario.identities + (place % 2 if together else place)
        address = _address(network, place)
        yield visitor(device, name=f"{device}/{place}", address=address, lies=True)
        return
    for twin in range(tactics.minted):
        yield visitor(
            device,
            name=f"{device}/{place}.{twin}",
            identity=f"attacker {place}.{twin}",
            address=_address(place, twin),
            lies=True,
        )


def _inventors(scenario: Scenario) -> Iterator[Member]:
    if scenario.peaceful or Raid.INVENT not in scenario.tactics.raids:
        return
    for family in scenario.families:
        for number in range(INVENTED):
            for place in range(scenario.attackers_per_class):
                for twin in range(scenario.tactics.minted):
                    yield Member(
                        device=f"{family}/{UNSEEN}",
                        hardware=hardware_of(f"{family}/{UNSEEN + 1 + number}"),
                        name=f"{family}/{number}/{place}.{twin}",
                        identity=f"attacker {place}.{twin}",
                        address=_address(place, twin),
                        lies=True,
                        invented=True,
                    )


def visitor(
    device: str, *, name: str = "", identity: str = "", address: str = "", lies: bool = False
) -> Member:
    """Makes a member that tells the hardware of its device."""
    return Member(
        device=device,
        hardware=hardware_of(device),
        name=name,
        identity=identity or name,
        address=address,
        lies=lies,
    )


def _address(network: int, place: int) -> str:
    """A network is a /24. 127.0.0.0/24 is left to whoever else is on this machine."""
    return f"127.{1 + network // 250}.{network % 250}.{1 + place % 250}"


def hardware_of(device: str) -> Hardware:
    """The family's name stands where a browser tells its processor's architecture."""
    family, _, relative = device.partition("/")
    return Hardware(
        cpu_architecture=family,
        logical_cores=2 * (1 + int(relative)),
        gpu_vendor="",
        gpu_architecture="",
    )


def session_of(
    member: Member, peak_gflops: float = PEAK_GFLOPS, identity: str | None = None
) -> SessionRequest:
    """`identity`: the token of an earlier session."""
    return SessionRequest(
        hardware=HardwareWire(
            cpu_architecture=member.hardware.cpu_architecture,
            logical_cores=member.hardware.logical_cores,
            gpu_vendor="",
            gpu_architecture="",
        ),
        engine=ENGINE,
        target=TargetKind.WASM,
        features=list(FEATURES),
        rho=RHO,
        peak_gflops=peak_gflops,
        isolated=True,
        identity=identity,
    )


def class_of(device: str, rho: str = RHO) -> str:
    """Names the class of these members as the gateway does."""
    return f"{hardware_of(device).device_id}:{rho}:wasm+{'+'.join(FEATURES)}"
