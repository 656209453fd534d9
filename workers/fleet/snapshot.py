"""What an agent page says of itself in `globalThis.kernelzooAgent`."""

from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from workers.fleet.status import AgentStatus

# Gives the events since the last reading. The page forgets its oldest events, so the last one
# that was read is remembered by itself, not by its number.
READ_SNAPSHOT = """() => {
  const agent = globalThis.kernelzooAgent;
  if (!agent) return null;
  const fresh = agent.events.slice(agent.events.lastIndexOf(globalThis.kernelzooRead) + 1);
  globalThis.kernelzooRead = agent.events.at(-1);
  return JSON.stringify({ state: agent.state.phase, events: fresh });
}"""


class AgentEvent(BaseModel):
    """`type` and whatever else belongs to it, which goes to the log as it is."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)

    type: str
    outcome: str = "ok"
    final: bool = False
    first_timed_ms: float | None = Field(default=None, alias="firstTimedMs")


class Snapshot(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    state: str
    events: tuple[AgentEvent, ...]


def advance(status: AgentStatus, snapshot: Snapshot) -> AgentStatus:
    """The status after the events that the snapshot adds."""
    measured = [event for event in snapshot.events if event.type == "measured"]
    succeeded = [event for event in measured if event.outcome == "ok"]
    ballots = [event for event in snapshot.events if event.type == "ballot"]
    first = next((e.first_timed_ms for e in snapshot.events if e.first_timed_ms is not None), None)
    return replace(
        status,
        state=snapshot.state,
        measured=status.measured + len(succeeded),
        failed=status.failed + len(measured) - len(succeeded),
        ballots=status.ballots + len(ballots),
        final_ballots=status.final_ballots + sum(event.final for event in ballots),
        first_timed_ms=first if status.first_timed_ms is None else status.first_timed_ms,
    )
