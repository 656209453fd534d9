"""Only so many manifests that are in no memory may be built at one time."""

from heapq import heappop, heappush
from random import Random
from statistics import quantiles

from services.gateway.admission import (
    FEW,
    FEWEST,
    LATE_S,
    MOST_AT_ONCE,
    RESERVED,
    RESERVED_PER_S,
    SLOW_S,
    WINDOW_S,
    Admission,
    Place,
)
from services.gateway.builds import AT_ONCE

FLOOD = "flood"
OF_ALL, OF_RESERVE = Place(reserved=False), Place(reserved=True)


class World:
    """A clock that the test turns, and a thread that is as late as the test says."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.late_s = 0.0
        self.admission = Admission(lambda: self.late_s, lambda: self.now_s)

    def entered(self, misses: int, network: str = FLOOD) -> int:
        """Counts those that are not of the reserve, whose places are given back."""
        places = [self.admission.enter(network) for _ in range(misses)]
        for _ in range(places.count(OF_RESERVE)):
            self.admission.leave(OF_RESERVE, 0.0)
        return places.count(OF_ALL)

    def answered(self, misses: int, took_s: float) -> None:
        self.now_s += took_s
        for _ in range(misses):
            self.admission.leave(OF_ALL, took_s)


def test_of_a_thousand_at_once_only_those_are_let_in_that_can_be_built_soon() -> None:
    world = World()
    assert world.entered(1000) == MOST_AT_ONCE
    world.answered(1, SLOW_S / 2)
    assert world.entered(1000) == 1, "whoever was answered makes room for one"


def test_slow_answers_leave_few_at_a_time_and_fast_ones_let_more_in() -> None:
    world = World()
    for expected in (16, 8, 4, 2, 1, FEWEST):
        assert world.entered(1000) == expected
        world.answered(expected, 2 * SLOW_S)
        assert world.entered(1000) == 0, "they pause for as long as the last one took"
        world.now_s += 2 * SLOW_S
    for expected in (1, 2, 2, 3, 4, 5):
        assert world.entered(1000) == expected
        world.answered(expected, SLOW_S / 10)


def test_who_is_answered_in_a_flood_waits_for_few_others() -> None:
    world, chance, build_s, seconds = World(), Random(1), 0.02, 20
    free_s, waited_s = [0.0] * AT_ONCE, []
    answered: list[tuple[float, float]] = []
    for asked_ms in range(1000 * seconds):
        while answered and answered[0][0] <= asked_ms / 1000:
            world.now_s, took_s = heappop(answered)
            world.admission.leave(OF_ALL, took_s)
        world.now_s = asked_ms / 1000
        if world.admission.enter(FLOOD) == OF_ALL:
            begun_s = max(world.now_s, heappop(free_s))
            done_s = begun_s + chance.gammavariate(4, build_s / 4)
            heappush(free_s, done_s)
            heappush(answered, (done_s, done_s - world.now_s))
            waited_s.append(done_s - world.now_s)
    assert quantiles(waited_s, n=100)[-1] < 2 * SLOW_S
    assert len(waited_s) > 0.8 * seconds * AT_ONCE / build_s, "few are idle meanwhile"


def test_while_the_thread_is_late_one_is_built_at_a_time_with_a_pause_of_its_length() -> None:
    world = World()
    world.late_s = 2 * LATE_S
    assert world.entered(1000) == 1
    world.answered(1, SLOW_S / 2)
    assert world.entered(1000) == 0
    world.now_s += SLOW_S / 2
    assert world.entered(1000) == 1


def test_where_nobody_is_refused_slow_answers_alone_close_nothing() -> None:
    world = World()
    world.late_s = 2 * LATE_S
    for _ in range(100):
        assert world.entered(1) == 1
        world.answered(1, 10 * SLOW_S)
    world.late_s = 0.0
    assert world.entered(1000) == MOST_AT_ONCE


def test_a_miss_that_took_for_ever_does_not_close_the_gateway() -> None:
    world = World()
    assert world.entered(1000) == MOST_AT_ONCE
    world.answered(MOST_AT_ONCE, 3600)
    world.now_s += 1
    assert world.entered(1000) >= FEWEST


def test_a_page_of_another_network_is_built_for_in_a_flood() -> None:
    """Attack: misses without end, so that pages whose class is in no memory get 503."""
    world = World()
    world.late_s = 2 * LATE_S
    assert world.entered(1000) == 1
    world.now_s += 1.0
    assert [world.admission.enter("page") for _ in range(FEW + 1)] == [OF_RESERVE] * FEW + [None]
    world.now_s += 0.5
    assert world.admission.enter("another") is None, "as many of the reserve are under way"
    for _ in range(FEW):
        world.admission.leave(OF_RESERVE, SLOW_S)
    assert world.admission.enter("another") == OF_RESERVE
    world.now_s += WINDOW_S
    assert world.admission.enter("page") == OF_RESERVE


def test_a_flood_from_many_networks_has_no_more_of_the_reserve_than_there_is() -> None:
    world, seconds, begun = World(), 10, 0
    world.late_s = 2 * LATE_S
    world.entered(1)
    for asked_ms in range(1000 * seconds):
        world.now_s = asked_ms / 1000
        if world.admission.enter(f"network {asked_ms % 200}"):
            begun += 1
            world.admission.leave(OF_RESERVE, 0.001)
    assert begun <= RESERVED + RESERVED_PER_S * seconds
