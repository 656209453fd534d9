"""The stack's plan is a value, so it is looked at without starting anything."""

from pathlib import Path

import pytest

from cli.stack.place import Keys, Place
from cli.stack.plan import FleetPlan, StackOptions, plan_stack
from cli.stack.processes import ProcessSpec, Tier
from workers.fleet.browsers import BrowserKind, Share

PLACE = Place(root=Path("/state"))
KEYS = Keys(operator="operator-secret", token_secret="token-secret", signing="signing-secret")


def _plan(
    agents: int = 0, host: str = "127.0.0.1", fleet: FleetPlan | None = None
) -> tuple[ProcessSpec, ...]:
    options = StackOptions(
        host=host,
        port=8787,
        redis_port=7000,
        fleet=fleet or (FleetPlan.chromium(agents) if agents else None),
        overrides=(("KERNELZOO_QUORUM", "2"),),
    )
    return plan_stack(PLACE, KEYS, "postgresql:///x", options)


def test_processes_start_in_the_order_of_their_tiers() -> None:
    plan = _plan(agents=2)
    assert [spec.name for spec in plan] == ["redis", "gateway", "compile", "aggregate", "fleet"]
    assert [spec.tier for spec in plan] == sorted(spec.tier for spec in plan)


def test_without_agents_there_is_no_fleet() -> None:
    assert Tier.FLEET not in {spec.tier for spec in _plan()}


def test_the_fleet_is_told_its_browsers_and_how_many_agents_of_each() -> None:
    shares = (
        Share(browser=BrowserKind.FIREFOX, agents=2),
        Share(browser=BrowserKind.WEBKIT, agents=1),
    )
    plan = _plan(fleet=FleetPlan(shares=shares))
    command = plan[-1].command
    told = [command[at + 1] for at, word in enumerate(command) if word == "--browser"]
    assert told == ["firefox=2", "webkit=1"]


def test_each_process_writes_a_log_of_its_own_inside_the_state() -> None:
    logs = [spec.log for spec in _plan(agents=1)]
    assert logs == [PLACE.log(spec.name) for spec in _plan(agents=1)]
    assert len(set(logs)) == len(logs)


def test_no_secret_is_on_a_command_line_or_in_the_plans_text() -> None:
    for spec in _plan(agents=1):
        assert "secret" not in " ".join(spec.command) + repr(spec)
    assert "secret" not in repr(KEYS)


def test_services_are_told_where_database_and_broker_are() -> None:
    gateway = dict(_plan()[1].env)
    assert gateway["KERNELZOO_DATABASE_URL"] == "postgresql:///x"
    assert gateway["KERNELZOO_REDIS_URL"] == "redis://127.0.0.1:7000/0"
    assert gateway["KERNELZOO_QUORUM"] == "2"


def test_the_fleet_learns_the_operators_key_and_no_other_secret() -> None:
    assert [name for name, _ in _plan(agents=1)[-1].env] == ["KERNELZOO_OPERATOR_KEY"]


def test_redis_listens_on_this_machine_only_and_drops_no_message() -> None:
    command = _plan(host="0.0.0.0")[0].command
    assert command[command.index("--bind") + 1] == "127.0.0.1"
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:8787"), ("0.0.0.0", "http://127.0.0.1:8787")],
)
def test_a_stack_for_the_whole_network_is_reached_from_here_by_loopback(
    host: str, url: str
) -> None:
    assert StackOptions(host=host, port=8787, redis_port=1).url == url
