"""What the operator's agents end with in recorded spaces."""

from random import Random

import pytest

from bench.crowd.finals import AGENTS, NEAR, noise, spaces
from fixtures.paper_stack import PaperStack
from fixtures.recorded.dataset import read
from services.aggregator.publishing import Rule


@pytest.mark.parametrize("malicious_share", [0.0, 0.2])
def test_five_agents_of_the_operator_serve_the_best_of_nearly_all_spaces(
    malicious_share: float,
) -> None:
    """Before, 32 of 40 in a zoo that expects strangers: five had to agree without exception."""
    recorded = read()
    stacks = [
        PaperStack(
            seed=seed,
            true=space.times,
            agents=AGENTS,
            rule=Rule(quorum=AGENTS, malicious_share=malicious_share, minimum=10),
            first_time=noise(recorded),
        )
        for seed, space in enumerate(Random(1).sample(list(spaces(recorded)), 40))
    ]
    for stack in stacks:
        stack.run()
    assert sum(stack.regret <= NEAR for stack in stacks) >= 38
    assert max(stack.true[stack.served] for stack in stacks) <= 1 + NEAR
    assert all(stack.evidence is not None and stack.evidence.final for stack in stacks)
