"""Turns are given one after the other to what falls due together."""

from itertools import pairwise

from services.gateway.pace import EVERY_S, Pace


def test_what_falls_due_alone_has_its_turn_at_once() -> None:
    pace = Pace()
    assert [pace.turn_s(due_s) for due_s in (1.0, 2.0, 3.0)] == [1.0, 2.0, 3.0]


def test_what_falls_due_together_is_spread_in_the_order_in_which_it_asks() -> None:
    pace = Pace()
    turns_s = [pace.turn_s(1.0) for _ in range(4096)]
    assert turns_s[0] == 1.0
    gaps_s = [later - earlier for earlier, later in pairwise(turns_s)]
    assert min(gaps_s) > 0.99 * EVERY_S
    assert pace.turn_s(10.0) == 10.0, "what was due then is over"
