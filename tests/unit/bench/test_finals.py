"""The operator's agents end with good kernels in recorded spaces."""

from random import Random

import pytest

from bench.crowd.finals import NEAR, noise, spaces, tuned
from cli.simulate.conduct import APART
from fixtures.recorded.dataset import read


@pytest.mark.parametrize("malicious_share", [0.0, 0.2])
def test_five_agents_of_the_operator_serve_the_best_of_nearly_all_spaces(
    malicious_share: float,
) -> None:
    """Before, 32 of 40 in a zoo that expects strangers: five had to agree without exception."""
    recorded = read()
    keys = Random(1).sample(list(spaces(recorded)), 40)
    stacks = tuned(keys, malicious_share, APART, noise(recorded))
    assert sum(stack.regret <= NEAR for stack in stacks) >= 38
    assert max(stack.true[stack.served] for stack in stacks) <= 1 + NEAR
    assert all(stack.evidence is not None and stack.evidence.final for stack in stacks)
