"""`kernelzoo up` takes nobody to lie where all agents are the operator's."""

import pytest

from cli.stack.plan import OWN_AGENTS, StackOptions
from cli.up import own_agents, whom_it_counts
from kernelzoo.domain.trust import Trust

HERE, ANYWHERE = "127.0.0.1", "0.0.0.0"
PROXIED = {"KERNELZOO_TRUSTED_PROXIES": "127.0.0.1"}


@pytest.mark.parametrize(
    ("host", "trust", "environment", "own"),
    [
        (HERE, Trust.CROWD, {}, True),
        (HERE, Trust.CROWD, PROXIED, False),
        (ANYWHERE, Trust.CROWD, {}, False),
        (HERE, Trust.APPLICATIONS, {}, False),
        (HERE, Trust.APPLICATIONS, PROXIED, False),
        (HERE, Trust.OPERATOR, PROXIED, True),
        (ANYWHERE, Trust.OPERATOR, {}, True),
        (HERE, Trust.CROWD, {OWN_AGENTS[0]: "0.3"}, False),
    ],
)
def test_nobody_is_taken_to_lie_where_all_agents_are_the_operators(
    host: str, trust: Trust, environment: dict[str, str], own: bool
) -> None:
    """Attack: visitors of an application vote by a proxy of the machine, as on one's own."""
    found = own_agents(host, trust, environment)
    assert found == ((OWN_AGENTS,) if own else ())
    options = StackOptions(host=host, port=1, redis_port=2, trust=trust, overrides=found)
    said = whom_it_counts(options, environment)
    assert ("none of them is taken to lie" in said) is own
    assert ("up to 20%" in said) is (not own and OWN_AGENTS[0] not in environment)
    assert (f"reaches {host}" in said) is (trust is Trust.CROWD)
