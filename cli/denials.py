"""`kernelzoo zoo deny|allow|rollback|denied`: kernels that a class of devices is never served."""

from collections.abc import Iterable
from typing import Annotated

import typer
from pydantic import ValidationError

from cli.gateway_client import GatewayClient, reach
from cli.listing import Column, print_json, show_all
from cli.options import STATE, JsonOption, StateOption, UrlOption
from cli.terminal import note, out
from kernelzoo.domain.workload import workload_key
from kernelzoo.errors import InvalidInput
from services.gateway.wire.denials import Decision, DenialRequest

SHORT = 16
"""Digits of a hash that are printed; any eight or more are taken where they name one artifact."""

ArtifactArgument = Annotated[
    str, typer.Argument(help="Its SHA-256, or the first eight digits of it or more.")
]
ClassArgument = Annotated[
    str, typer.Argument(help="A device class, or how the name of one in the zoo begins.")
]
ReasonOption = Annotated[str, typer.Option(help="Kept with the decision.")]


def deny(
    artifact: ArtifactArgument,
    device_class: ClassArgument,
    reason: ReasonOption = "by the operator",
    as_json: JsonOption = False,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Never serve or lend an artifact to a class; what is served of it is rolled back."""
    with reach(state, url) as gateway:
        _tell(_decided(gateway, artifact, device_class, reason, denied=True), as_json=as_json)


def allow(
    artifact: ArtifactArgument,
    device_class: ClassArgument,
    reason: ReasonOption = "by the operator",
    as_json: JsonOption = False,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Serve an artifact to a class again if it wins, whatever the crowd says of it."""
    with reach(state, url) as gateway:
        _tell(_decided(gateway, artifact, device_class, reason, denied=False), as_json=as_json)


def rollback(
    key: Annotated[str, typer.Argument(help="A workload key.")],
    device_class: ClassArgument,
    reason: ReasonOption = "rolled back by the operator",
    as_json: JsonOption = False,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Deny what a class is served for a workload: the version before it is served again."""
    workload = workload_key(key)
    with reach(state, url) as gateway:
        entries = list(gateway.entries(workload))
        wanted = one_named(device_class, (e.device_class for e in entries))
        live = next((e for e in entries if e.device_class == wanted), None)
        if live is None:
            raise InvalidInput(
                f"the zoo has no entry of {workload} for {device_class}; "
                "`kernelzoo zoo list` names the classes of each"
            )
        note(f"version {live.version}, candidate {live.candidate}, is taken back")
        _tell(_decided(gateway, live.artifact, wanted, reason, denied=True), as_json=as_json)


def denied(as_json: JsonOption = False, state: StateOption = STATE, url: UrlOption = None) -> None:
    """List what is denied to which class, and why; and what the operator allowed."""
    with reach(state, url) as gateway:
        decisions = gateway.decisions()
    show_all(decisions, COLUMNS, _row, none="nothing is denied", as_json=as_json)


COLUMNS = (
    Column(heading="artifact"),
    Column(heading="device class", rank=1),
    Column(heading="decision"),
    Column(heading="by", rank=2),
    Column(heading="stage", rank=4),
    Column(heading="evidence", rank=3),
)


def _row(decision: Decision) -> tuple[str, ...]:
    return (
        decision.artifact[:SHORT],
        decision.device_class,
        "denied" if decision.denied else "allowed",
        "operator" if decision.operated else "crowd",
        decision.stage,
        decision.evidence,
    )


def one_named(prefix: str, names: Iterable[str]) -> str:
    """The one that begins so, or the prefix where none does. Raises InvalidInput for several."""
    found = sorted({name for name in names if name.startswith(prefix)})
    if prefix in found or not found:
        return prefix
    if len(found) > 1:
        raise InvalidInput(f"{prefix} may be {' or '.join(found[:5])}; write more of it")
    return found[0]


def _decided(
    gateway: GatewayClient, artifact: str, device_class: str, reason: str, *, denied: bool
) -> Decision:
    try:
        asked = DenialRequest(
            artifact=artifact.lower(), device_class=device_class, denied=denied, reason=reason
        )
    except ValidationError as error:
        raise InvalidInput(
            f"artifact {artifact[:80]!r} is no SHA-256 nor eight digits of one or more; "
            "`kernelzoo zoo show KEY` prints it"
        ) from error
    known = (entry.device_class for entry in gateway.entries())
    return gateway.decide(asked.model_copy(update={"device_class": one_named(device_class, known)}))


def _tell(decision: Decision, *, as_json: bool) -> None:
    if as_json:
        print_json(decision)
        return
    verb = "denied to" if decision.denied else "allowed on"
    artifact = decision.artifact[:SHORT]
    out.print(f"artifact {artifact} is {verb} {decision.device_class}")
    out.print(f"it is a kernel of {', '.join(decision.workloads)}")
    if decision.denied:
        note(f"`kernelzoo zoo allow {artifact} {decision.device_class}` undoes this")
        note("`kernelzoo zoo list` shows what is served")
