"""All this holds of every lease, however a space stands."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from kernelzoo.domain.few_runs import RUNS
from kernelzoo.domain.lease import FINALISTS, LEADERS, LentRole
from kernelzoo.store.prospects import ProspectRow
from services.gateway.lending import KNOWN_BY, LendingTerms, plan
from tests.unit.gateway.spaces import ALONE, names, new

prospects = st.lists(
    st.builds(
        ProspectRow,
        candidate_id=st.sampled_from([f"k{place:02}" for place in range(40)]),
        compiled=st.booleans(),
        mine=st.booleans(),
        held=st.booleans(),
        answered=st.integers(0, 5),
        lent=st.integers(0, 3),
        known_by=st.integers(0, 5),
        relative_time=st.none() | st.floats(0.1, 3),
        fastest=st.none() | st.floats(0.1, 3),
        relative_preparation=st.none() | st.floats(0, 100),
        champion=st.booleans(),
        contender=st.booleans(),
        similar=st.sampled_from([None, 0, 1]),
    ),
    unique_by=lambda p: p.candidate_id,
    max_size=40,
)
terms = st.builds(
    LendingTerms,
    reference_id=st.just("k00"),
    limit=st.integers(1, 16),
    cover=st.sampled_from([1, 2]),
    quorum=st.integers(1, 5),
    sharers=st.integers(1, 30),
    recheck=st.sampled_from([0.0, 0.3, 1.0]),
    closed=st.booleans(),
)


@settings(deadline=None)
@given(space=prospects, terms=terms, seed=st.integers(0, 1000))
def test_a_plan_lends_what_can_be_lent_once_within_the_limit_and_closes_when_nothing_is_left(
    space: list[ProspectRow], terms: LendingTerms, seed: int
) -> None:
    found = plan(space, terms, Random(seed))
    if found is None:
        others_may_answer = any(not each.mine or each.lent for each in space)
        assert terms.closed or others_may_answer
        return
    rows = {each.candidate_id: each for each in space}
    lent = [name for name, _ in found.items]
    assert len(set(lent)) == len(lent) <= terms.limit
    assert len(names(found, LentRole.CONTROL)) <= 1
    for name, role in found.items:
        row = rows[name]
        assert row.compiled
        assert not row.held
        assert not row.mine or role is LentRole.CONTROL
        assert role is not LentRole.CHAMPION or row.champion
        assert role is not LentRole.CONTROL or row.known_by >= min(terms.cover, KNOWN_BY)
    assert not (found.complete and found.unmeasured)
    if found.complete and not terms.closed:
        after = [row for row in space if not row.mine and row.candidate_id not in lent]
        assert all(row.answered >= terms.cover for row in after)


@settings(deadline=None)
@given(
    size=st.integers(1, 40),
    agents=st.integers(1, 12),
    cover=st.sampled_from([1, 2]),
    quorum=st.integers(1, 6),
)
def test_a_crowd_measures_all_of_a_space_and_the_first_two_as_often_as_a_quorum_asks(
    size: int, agents: int, cover: int, quorum: int
) -> None:
    """Agents come in turn, each answering at once; a kernel's time is its place, and the slower it
    is the sooner it is prepared. What is best for few runs a quorum measures, too.
    """
    measured_by: list[set[int]] = [set() for _ in range(size)]
    closed: set[int] = set()
    for turn in range(agents * (2 * size + 3)):
        one = turn % agents
        if one in closed:
            continue
        space = [
            replace(
                new(place),
                mine=one in by,
                answered=len(by - {one}),
                relative_time=1 + place / size if by else None,
                relative_preparation=100.0 * (size - place) if by else None,
            )
            for place, by in enumerate(measured_by)
        ]
        terms = replace(ALONE, cover=cover, sharers=agents, quorum=quorum)
        found = plan(space, terms, Random(turn))
        assert found is not None, "nobody holds anything"
        for name, _ in found.items:
            measured_by[int(name[1:])].add(one)
        closed |= {one} if found.complete else set()
    assert closed == set(range(agents))
    assert all(len(by) >= min(cover, agents) for by in measured_by)
    assert all(len(by) >= min(quorum, agents) for by in measured_by[:1])
    for runs in RUNS:
        costs = [100.0 * (size - place) + runs * (1 + place / size) for place in range(size)]
        least = min(range(size), key=costs.__getitem__)
        assert len(measured_by[least]) >= min(quorum, agents)
    led = LEADERS if cover > 1 else FINALISTS
    assert all(len(by) == agents for by in measured_by[: min(led, size) - 1])
