"""One network weighs only so much in a vote."""

from services.aggregator.networks import capped
from tests.ballots import ballot, cast


def named(*networks: str) -> list[str]:
    ballots = tuple(
        each
        for n, network in enumerate(networks)
        for each in cast(ballot(str(n), "a"), network=network)
    )
    return [counted.ballot.identity for counted in capped(ballots)]


def test_the_oldest_identity_of_a_network_counts() -> None:
    assert named("home", "home", "office", "home", "office", "office") == ["0", "2"]


def test_the_operators_agents_count_without_limit() -> None:
    assert named("", "", "", "") == ["0", "1", "2", "3"]
