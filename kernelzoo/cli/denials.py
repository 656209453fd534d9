"""`kernelzoo zoo deny|allow|rollback|denied`: kernels that a class of devices is never served."""

import re
from typing import Annotated

import typer
from rich.table import Table

from kernelzoo.cli.gateway_client import GatewayClient
from kernelzoo.cli.options import STATE, StateOption, UrlOption
from kernelzoo.cli.reach import reach
from kernelzoo.cli.terminal import out
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from services.gateway.wire.denials import Decision, DenialRequest

SHA256 = re.compile(r"[0-9a-f]{64}")

ArtifactArgument = Annotated[str, typer.Argument(help="SHA-256, as `zoo show` prints it.")]
ClassArgument = Annotated[str, typer.Argument(help="A device class, as `zoo list` prints it.")]
ReasonOption = Annotated[str, typer.Option(help="Kept with the decision.")]


def deny(
    artifact: ArtifactArgument,
    device_class: ClassArgument,
    reason: ReasonOption = "by the operator",
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Never serve or lend an artifact to a class; what is served of it is rolled back."""
    with reach(state, url) as gateway:
        _decide(gateway, artifact, device_class, reason, denied=True)


def allow(
    artifact: ArtifactArgument,
    device_class: ClassArgument,
    reason: ReasonOption = "by the operator",
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Serve an artifact to a class again if it wins, whatever the crowd says of it."""
    with reach(state, url) as gateway:
        _decide(gateway, artifact, device_class, reason, denied=False)


def rollback(
    key: Annotated[str, typer.Argument(help="A workload key.")],
    device_class: ClassArgument,
    reason: ReasonOption = "rolled back by the operator",
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Deny what a class is served for a workload: the version before it is served again."""
    workload = Workload.parse(key).key
    with reach(state, url) as gateway:
        entries = (e for e in gateway.entries() if e.workload == workload)
        live = next((e for e in entries if e.device_class == device_class), None)
        if live is None:
            raise InvalidInput(
                f"the zoo has no entry of {workload} for {device_class}; "
                "`kernelzoo zoo list` names the classes of each"
            )
        out.print(f"version {live.version}, candidate {live.candidate}, is taken back")
        _decide(gateway, live.artifact, device_class, reason, denied=True)


def denied(state: StateOption = STATE, url: UrlOption = None) -> None:
    """What is denied to which class, and why; and what the operator allowed."""
    with reach(state, url) as gateway:
        decisions = gateway.decisions()
    table = Table()
    for heading in ("artifact", "device class", "decision", "by", "stage", "evidence"):
        table.add_column(heading, overflow="fold")
    for each in decisions:
        table.add_row(
            each.artifact,
            each.device_class,
            "denied" if each.denied else "allowed",
            "operator" if each.operated else "crowd",
            each.stage,
            each.evidence,
        )
    out.print(table if decisions else "nothing is denied")


def _decide(
    gateway: GatewayClient, artifact: str, device_class: str, reason: str, *, denied: bool
) -> None:
    if not SHA256.fullmatch(artifact):
        raise InvalidInput(
            f"artifact {artifact[:80]!r} is no SHA-256; `kernelzoo zoo show KEY` prints it"
        )
    asked = DenialRequest(
        artifact=artifact, device_class=device_class, denied=denied, reason=reason
    )
    _tell(gateway.decide(asked))


def _tell(decision: Decision) -> None:
    verb = "denied to" if decision.denied else "allowed on"
    out.print(f"artifact {decision.artifact[:16]} is {verb} {decision.device_class}")
    out.print(f"it is a kernel of {', '.join(decision.workloads)}")
    if decision.denied:
        out.print("`kernelzoo zoo allow` undoes this; `kernelzoo zoo list` shows what is served")
