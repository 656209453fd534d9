"""A fleet at the terminal: one line per agent."""

from rich.table import Table
from rich.text import Text

from workers.fleet.status import AgentStatus, FleetStatus

_STYLES = {"measuring": "green", "restarting": "red", "no gateway": "yellow", "refused": "red"}


def fleet_lines(status: FleetStatus) -> str:
    return "\n".join(" · ".join(filter(None, _words(agent))) for agent in status.agents)


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


def fleet_table(status: FleetStatus) -> Table:
    table = Table(title=f"agents of {status.url}", title_justify="left")
    for name in ("agent", "browser", "state", "class", "measures", "how many"):
        table.add_column(name, overflow="ellipsis", no_wrap=name != "state")
    for agent in status.agents:
        table.add_row(
            agent.agent,
            agent.engine or agent.browser,
            _state(agent),
            agent.device_class or "…",
            agent.workload or "…",
            counts(agent),
        )
    return table


def _state(agent: AgentStatus) -> Text:
    why = f": {agent.trouble}" if agent.trouble else ""
    return Text(f"{agent.state}{why}", style=_STYLES.get(agent.state, ""))
