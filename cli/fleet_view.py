"""A fleet at the terminal: one line per agent."""

from rich.table import Table

from cli.listing import Column, Listing
from workers.fleet.status import AgentStatus, FleetStatus

_STYLES = {"measuring": "green", "restarting": "red", "no gateway": "yellow", "refused": "red"}


def fleet_lines(status: FleetStatus) -> str:
    return "\n".join(" · ".join(filter(None, _words(agent))) for agent in status.agents)


def _peak(status: FleetStatus) -> str:
    mib = status.peak_memory_bytes >> 20
    return f", {mib:,} MiB at most" if mib else ""


def _words(agent: AgentStatus) -> tuple[str, ...]:
    return (
        agent.agent,
        agent.engine,
        agent.state,
        agent.workload,
        counts(agent),
        agent.trouble,
    )


def counts(agent: AgentStatus) -> str:
    """Candidates and ballots; what went wrong only where something did."""
    numbers = ((agent.measured, "measured"), (agent.ballots, "ballots"))
    rare = ((agent.failed, "failed"), (agent.restarts, "restarts"))
    told = (*numbers, *(pair for pair in rare if pair[0]))
    return ", ".join(f"{number} {what}" for number, what in told)


COLUMNS = (
    Column(heading="agent"),
    Column(heading="state"),
    Column(heading="how many"),
    Column(heading="browser", rank=1),
    Column(heading="measures", rank=2),
    Column(heading="class", rank=3),
)


def fleet_table(status: FleetStatus, width: int) -> Table:
    """In a terminal of this width."""
    rows = tuple(
        (
            agent.agent,
            f"{agent.state}: {agent.trouble}" if agent.trouble else agent.state,
            counts(agent),
            agent.engine or agent.browser,
            agent.workload or "…",
            agent.device_class or "…",
        )
        for agent in status.agents
    )
    table = Listing(columns=COLUMNS, rows=rows).fitting(width).table()
    table.title, table.title_justify = f"agents of {status.url}{_peak(status)}", "left"
    for agent, row in zip(status.agents, table.rows, strict=True):
        row.style = _STYLES.get(agent.state, "")
    return table
