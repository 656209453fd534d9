"""One's own agents go on until what is served is within the noise of the best measured."""

from statistics import fmean

import pytest

from cli.simulate.world import World
from fixtures.paper_stack import PaperStack
from services.aggregator.publishing import Rule

SPACE = 54


def stack(seed: int, agents: int, quorum: int) -> PaperStack:
    world = World(seed=seed, flops=1_000_000)
    calls = {f"k{n:02}": world.call_ns("device", f"k{n:02}") for n in range(SPACE)}
    return PaperStack(
        seed=seed,
        true={name: call / calls["k00"] for name, call in calls.items()},
        agents=agents,
        rule=Rule(quorum=quorum, malicious_share=0),
        apart=0,
    )


@pytest.mark.parametrize(("agents", "quorum"), [(5, 5), (2, 2), (1, 1), (12, 5)])
def test_what_is_served_in_the_end_is_within_the_noise_of_the_best(
    agents: int, quorum: int
) -> None:
    """Before, 7 of 40 such stacks of two agents and 27 of 40 of one ended more than 3 % behind, by
    45 % and 43 % at most, and of five agents one in 600, which is seed 393 (11 %).
    """
    stacks = [stack(seed, agents, quorum) for seed in (*range(20), 393)]
    for each in stacks:
        each.run()
        assert each.evidence is not None
        assert each.evidence.final, f"seed {each.seed}: {each.evidence.contenders} were left"
    assert max(each.regret_of_measured for each in stacks) <= 0.03
    assert fmean(each.regret_of_measured for each in stacks) <= 0.005


def test_it_takes_few_measurements_more_than_the_space_has_kernels() -> None:
    one = stack(seed=1, agents=5, quorum=5)
    one.run()
    assert sum(map(len, one.measured.values())) < 1.7 * SPACE
