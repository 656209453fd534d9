"""A network may send a few failures and ballots at once, then as many as its minute has room for.

Sixteen networks that sent a minute's at once kept the gateway's thread busy for ten seconds.
"""

from collections import Counter

import pytest

from services.gateway.bursts import AT_ONCE, LONGEST_S, MOST_REMEMBERED, PER_SECOND, Bursts
from services.gateway.problems import Refusal

ONE, OTHER = "one", "other"


def taken(bursts: Bursts, network: str, asked: int) -> int:
    """Counts those that are not refused."""
    count = 0
    for _ in range(asked):
        try:
            bursts.take(network)
        except Refusal:
            continue
        count += 1
    return count


def test_a_network_may_send_a_few_at_once_and_more_as_time_passes() -> None:
    now_s = [100.0]
    bursts = Bursts(clock=lambda: now_s[0])
    assert taken(bursts, ONE, 2 * AT_ONCE) == AT_ONCE
    now_s[0] += 2.0
    assert taken(bursts, ONE, AT_ONCE) == 2 * PER_SECOND
    now_s[0] += 3600.0
    assert taken(bursts, ONE, 2 * AT_ONCE) == AT_ONCE, "what was not used is not saved up"


def test_who_comes_back_when_it_was_told_is_not_refused_again() -> None:
    now_s = [100.0]
    bursts = Bursts(clock=lambda: now_s[0])
    taken(bursts, ONE, AT_ONCE)
    now_s[0] += wait_s(bursts, ONE)
    bursts.take(ONE)


def test_those_who_are_refused_together_are_told_different_times() -> None:
    """Each was told one second: of fifty who came back then, forty-five were refused again."""
    now_s = [100.0]
    bursts = Bursts(clock=lambda: now_s[0])
    taken(bursts, ONE, AT_ONCE)
    waits_s = Counter(wait_s(bursts, ONE) for _ in range(AT_ONCE))
    assert waits_s == dict.fromkeys(range(1, 11), PER_SECOND)
    for _ in range(10):
        now_s[0] += 1
        assert taken(bursts, ONE, int(PER_SECOND)) == PER_SECOND, "who comes at its time is heard"
    assert wait_s(bursts, ONE) == 1, "nobody waits any more"


def test_nobody_is_told_more_than_a_minute_for_what_others_sent() -> None:
    now_s = [100.0]
    bursts = Bursts(clock=lambda: now_s[0])
    taken(bursts, ONE, AT_ONCE)
    assert max(wait_s(bursts, ONE) for _ in range(10_000)) == LONGEST_S
    now_s[0] += LONGEST_S
    taken(bursts, ONE, AT_ONCE)
    assert wait_s(bursts, ONE) == 1, "what was promised is past"


def wait_s(bursts: Bursts, network: str) -> int:
    with pytest.raises(Refusal) as refused:
        bursts.take(network)
    return int(refused.value.headers["Retry-After"])


def test_networks_do_not_use_up_one_anothers() -> None:
    bursts = Bursts(clock=lambda: 100.0)
    assert taken(bursts, ONE, 2 * AT_ONCE) == AT_ONCE
    assert taken(bursts, OTHER, 2 * AT_ONCE) == AT_ONCE


def test_an_even_rate_of_a_minutes_limit_is_never_refused() -> None:
    now_s = [100.0]
    bursts = Bursts(clock=lambda: now_s[0])
    for _ in range(600):
        bursts.take(ONE)
        now_s[0] += 1 / PER_SECOND


def test_an_operator_may_allow_more() -> None:
    now_s = [100.0]
    bursts = Bursts(100.0, lambda: now_s[0])
    taken(bursts, ONE, AT_ONCE)
    now_s[0] += 0.25
    assert taken(bursts, ONE, AT_ONCE) == 25


def test_the_memory_for_networks_has_an_end() -> None:
    bursts = Bursts(clock=lambda: 100.0)
    assert taken(bursts, ONE, 2 * AT_ONCE) == AT_ONCE
    for number in range(MOST_REMEMBERED):
        bursts.take(str(number))
    assert taken(bursts, ONE, 2 * AT_ONCE) == AT_ONCE
