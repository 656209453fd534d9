"""Some kernels are offered for few runs, and those who lie about costs can do little."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from kernelzoo.domain.few_runs import CLOSE, RUNS
from kernelzoo.domain.measurement import Preparation
from services.aggregator.by_runs import Cost, Costs, Offer, offers
from services.aggregator.publishing import Rule
from tests.examples import examples

OWN = Rule(quorum=3, malicious_share=0.0)
CROWD = Rule(quorum=3, malicious_share=0.2)
ONE, FEW = RUNS


def cost(prepare: float, run: float) -> Cost:
    told = Preparation(compile_ns=prepare, optimise_ns=0.0, pack_ns=0.0, first_run_ns=run)
    return Cost(preparation=told, run_ns=run)


HONEST = {"warm": cost(1000.0, 10.0), "cold": cost(50.0, 15.0), "between": cost(200.0, 11.0)}


def told(found: tuple[Offer, ...]) -> dict[str, int | None]:
    return {each.candidate_id: each.runs for each in found}


def test_the_kernel_of_the_least_total_is_offered_for_each_number_of_runs() -> None:
    # Totals of 1 and 30: warm 1010 and 1300, cold 65 and 500, between 211 and 530.
    found = offers([HONEST] * 3, "warm", OWN)
    assert told(found) == {"cold": FEW, "warm": None}
    steep = HONEST | {"cold": cost(50.0, 19.0)}
    assert told(offers([steep] * 3, "warm", OWN)) == {"cold": ONE, "between": FEW, "warm": None}
    assert [each.voters for each in found] == [3, 3]


def test_nothing_is_offered_before_a_quorum_has_measured_both() -> None:
    assert offers([HONEST] * 2, "warm", OWN) == ()
    alone = {"warm": HONEST["warm"]}
    assert told(offers([HONEST, HONEST, alone], "warm", OWN)) == {"warm": None}


def test_a_kernel_that_is_much_slower_once_it_is_warm_is_not_offered() -> None:
    slow = HONEST | {"cold": cost(50.0, 10.0 * CLOSE * 1.1)}
    assert "cold" not in told(offers([slow] * 3, "warm", OWN))


def test_a_total_that_is_smaller_by_noise_is_not_offered() -> None:
    near = {"warm": cost(1000.0, 10.0), "cold": cost(950.0, 10.5)}
    assert told(offers([near] * 3, "warm", OWN)) == {"warm": None}


def test_those_who_lie_neither_have_a_kernel_offered_nor_bury_one() -> None:
    """Two of ten, which is the share that the zoo is told to expect."""
    truth = {"warm": cost(100.0, 10.0), "dear": cost(1000.0, 11.0)}
    praised = {"warm": cost(1e9, 10.0), "dear": cost(0.0, 11.0)}
    assert told(offers([praised] * 2 + [truth] * 8, "warm", CROWD)) == {"warm": None}
    slandered = HONEST | {"cold": cost(1e9, 15.0), "between": cost(1e9, 11.0)}
    found = offers([slandered] * 2 + [HONEST] * 8, "warm", CROWD)
    assert told(found) == {"cold": FEW, "warm": None}
    assert found[0].cost == HONEST["cold"]


def test_the_malicious_share_asks_for_more_than_a_plain_majority() -> None:
    cheap = {"warm": cost(1000.0, 10.0), "cold": cost(50.0, 15.0)}
    dear = {"warm": cost(50.0, 10.0), "cold": cost(1000.0, 15.0)}
    voters = [cheap] * 6 + [dear] * 5
    assert "cold" in told(offers(voters, "warm", OWN))
    assert told(offers(voters, "warm", CROWD)) == {"warm": None}


kernels = st.dictionaries(
    st.sampled_from("abcdef"),
    st.builds(cost, st.floats(0, 1e6), st.floats(1, 1e4)),
    min_size=1,
)


@given(kernels, st.floats(0, 1e6), st.floats(1, 1e4))
@settings(max_examples=examples(100))
def test_what_is_offered_is_beaten_by_nothing_in_both(
    others: Mapping[str, Cost], prepare: float, run: float
) -> None:
    voter: Costs = {"served": cost(prepare, run), **others}
    found = offers([voter] * 3, "served", OWN)
    assert found[-1].candidate_id == "served"
    assert [each.runs for each in found[:-1]] == sorted(each.runs or 0 for each in found[:-1])
    for each in found[:-1]:
        assert each.runs is not None
        assert each.cost.total_ns(each.runs) < voter["served"].total_ns(each.runs)
        for other in voter.values():
            both = (other.prepare_ns < each.cost.prepare_ns, other.run_ns < each.cost.run_ns)
            assert both != (True, True)
