"""The turn to time: one agent at a time, and none that is gone keeps it."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

from workers.fleet.turns import TimingTurn, Turnstile


def test_the_turn_goes_round_in_the_order_of_asking() -> None:
    async def scenario() -> list[str | None]:
        turn = TimingTurn()
        await turn.acquire("a")
        waiting = [asyncio.create_task(turn.acquire(name)) for name in ("b", "c")]
        await asyncio.sleep(0)
        holders = [turn.holder]
        for name in ("a", "b", "c"):
            turn.release(name)
            holders.append(turn.holder)
        await asyncio.gather(*waiting)
        return holders

    assert asyncio.run(scenario()) == ["a", "b", "c", None]


def test_an_agent_that_dies_with_the_turn_passes_it_on() -> None:
    async def scenario() -> str | None:
        turn = TimingTurn()
        await turn.acquire("a")
        second = asyncio.create_task(turn.acquire("b"))
        await asyncio.sleep(0)
        turn.forfeit("a")
        await asyncio.wait_for(second, 1)
        return turn.holder

    assert asyncio.run(scenario()) == "b"


def test_an_agent_that_dies_while_it_waits_is_never_given_the_turn() -> None:
    async def scenario() -> str | None:
        turn = TimingTurn()
        await turn.acquire("a")
        dead, alive = (asyncio.create_task(turn.acquire(name)) for name in ("b", "c"))
        await asyncio.sleep(0)
        turn.forfeit("b")
        turn.release("a")
        await asyncio.wait_for(alive, 1)
        with pytest.raises(asyncio.CancelledError):
            await dead
        return turn.holder

    assert asyncio.run(scenario()) == "c"


def test_a_page_that_hangs_loses_the_turn_after_its_limit() -> None:
    async def scenario() -> str | None:
        turn = TimingTurn(limit_s=0.01)
        await turn.acquire("hung")
        await asyncio.wait_for(turn.acquire("next"), 1)
        return turn.holder

    assert asyncio.run(scenario()) == "next"


def test_releasing_what_another_holds_changes_nothing() -> None:
    async def scenario() -> str | None:
        turn = TimingTurn()
        await turn.acquire("a")
        turn.release("b")
        return turn.holder

    assert asyncio.run(scenario()) == "a"


def test_asking_twice_is_asking_once() -> None:
    async def scenario() -> str | None:
        turn = TimingTurn()
        await turn.acquire("a")
        await asyncio.wait_for(turn.acquire("a"), 1)
        turn.release("a")
        return turn.holder

    assert asyncio.run(scenario()) is None


def test_agents_of_two_fleets_never_time_at_once_and_both_come_to_their_turn(
    tmp_path: Path,
) -> None:
    """Each fleet opens the files for itself, as processes do."""

    async def scenario(exits: ExitStack) -> list[str]:
        timing: list[str] = []
        order: list[str] = []

        async def work(turn: TimingTurn, agent: str) -> None:
            for _ in range(5):
                await turn.acquire(agent)
                timing.append(agent)
                assert timing == [agent], "two at once"
                order.append(agent)
                await asyncio.sleep(0.001)
                timing.remove(agent)
                turn.release(agent)

        busy, other = (TimingTurn(others=Turnstile.open(tmp_path, exits)) for _ in range(2))
        agents = [work(busy, "a"), work(busy, "b"), work(busy, "c"), work(other, "d")]
        await asyncio.wait_for(asyncio.gather(*agents), 10)
        return order

    with ExitStack() as exits:
        order = asyncio.run(scenario(exits))
    assert sorted(order) == sorted("abcd" * 5)
    assert "d" in order[:3], "a fleet with many agents keeps the turn to itself"


def test_a_fleet_that_dies_with_the_turn_leaves_it_to_the_other(tmp_path: Path) -> None:
    async def scenario(dying: ExitStack, exits: ExitStack) -> str | None:
        await TimingTurn(others=Turnstile.open(tmp_path, dying)).acquire("dead")
        turn = TimingTurn(others=Turnstile.open(tmp_path, exits))
        waiting = asyncio.create_task(turn.acquire("alive"))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        dying.close()
        await asyncio.wait_for(waiting, 1)
        return turn.holder

    with ExitStack() as dying, ExitStack() as exits:
        assert asyncio.run(scenario(dying, exits)) == "alive"
