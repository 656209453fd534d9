"""Reads what an agent page says of itself in `globalThis.kernelzooAgent`."""

from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from workers.fleet.status import AgentStatus


class EngineWords(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    version: str


class AgentEvent(BaseModel):
    """`type` and whatever else belongs to it, which goes to the log as it is."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)

    type: str
    target: str = ""
    outcome: str = "ok"
    final: bool = False
    first_timed_ms: float | None = Field(default=None, alias="firstTimedMs")
    device_class: str = Field(default="", alias="deviceClass")
    engine: EngineWords | None = None
    workload: str = ""
    reason: str = ""


class Snapshot(BaseModel):
    """`events` are those since the last one; `error` is what keeps the agent from its work now."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    state: str
    error: str = ""
    events: tuple[AgentEvent, ...]


def advance(status: AgentStatus, snapshot: Snapshot) -> AgentStatus:
    """The status after the events that the snapshot adds."""
    measured = [event for event in snapshot.events if event.type == "measured"]
    succeeded = [event for event in measured if event.outcome == "ok"]
    ballots = [event for event in snapshot.events if event.type == "ballot"]
    first = next((e.first_timed_ms for e in snapshot.events if e.first_timed_ms is not None), None)
    return replace(
        _described(status, snapshot),
        state=snapshot.state,
        trouble=snapshot.error,
        measured=status.measured + len(succeeded),
        failed=status.failed + len(measured) - len(succeeded),
        ballots=status.ballots + len(ballots),
        final_ballots=status.final_ballots + sum(event.final for event in ballots),
        first_timed_ms=first if status.first_timed_ms is None else status.first_timed_ms,
    )


def _described(status: AgentStatus, snapshot: Snapshot) -> AgentStatus:
    """Adds to a status who measures what, as the last events say."""
    for event in snapshot.events:
        if event.type == "session" and event.engine is not None:
            status = replace(
                status,
                engine=f"{event.engine.name} {event.engine.version}".strip(),
                device_class=event.device_class,
                device_classes={**status.device_classes, event.target: event.device_class},
            )
        elif event.workload:
            status = replace(
                status,
                workload=event.workload,
                device_class=status.device_classes.get(event.target, status.device_class),
            )
    return status
