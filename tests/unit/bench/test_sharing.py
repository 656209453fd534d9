"""A crowd is taken to have had its winner at a certain time."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from bench.crowd.finish import RaceFinish, finish
from fixtures.sharing import floor
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.store.curves import ReportedTimeRow
from kernelzoo.store.zoo import VersionRow

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
SLOWDOWNS = {"best": 0.0, "near": 0.019, "slow": 0.3}


def reported(after_s: float, candidate: str, by: int) -> ReportedTimeRow:
    return ReportedTimeRow(
        identity_id=UUID(int=by),
        candidate_id=candidate,
        relative_time=0.5,
        lent_at=BEGUN,
        reported_at=BEGUN + timedelta(seconds=after_s),
    )


def version(
    after_s: float, candidate: str, state: str = "retired", *, served: bool = True
) -> VersionRow:
    return VersionRow(
        workload_key=WorkloadKey("matmul:f32:m2k3n4"),
        version=1,
        candidate_id=candidate,
        state=state,
        ballots=2,
        served=served,
        published_at=BEGUN + timedelta(seconds=after_s),
    )


REPORTED = [
    reported(1, "best", 1),
    reported(2, "near", 2),
    reported(3, "slow", 1),
    reported(4, "best", 2),
    reported(5, "near", 1),
    reported(6, "slow", 2),
]


def found(*versions: VersionRow, cover: int = 1) -> RaceFinish:
    return finish(REPORTED, versions, SLOWDOWNS, cover=cover)


def test_a_winner_that_stands_counts_from_its_first_version_that_is_good_enough() -> None:
    end = found(version(3.2, "slow"), version(4.5, "near"), version(5.5, "best", state="confirmed"))
    assert (end.won_s, end.covered_s, end.versions, end.regret) == (4.5, 3.0, 3, 0.0)
    assert end.by_each == 2


def test_one_that_is_lost_again_does_not_count() -> None:
    end = found(version(1, "best"), version(4, "slow"), version(5, "near", state="confirmed"))
    assert end.won_s == 5
    assert found(version(1, "best"), version(5, "slow", state="confirmed")).won_s is None


def test_one_that_is_found_before_all_is_measured_was_luck() -> None:
    assert found(version(1, "best", state="confirmed")).won_s == 3
    twice = found(version(1, "best", state="confirmed"), cover=2)
    assert (twice.covered_s, twice.won_s) == (6, 6)


def test_what_no_page_was_given_was_not_confirmed() -> None:
    assert found(version(1, "best", state="provisional", served=False)).won_s is None


@pytest.mark.parametrize(
    ("agents", "cover", "quorum", "least"),
    [(1, 1, 1, 36), (2, 1, 2, 19), (5, 1, 5, 8), (20, 1, 5, 2), (5, 2, 5, 15), (20, 2, 5, 4)],
)
def test_the_floor_is_an_equal_part_of_the_space_and_of_the_votes(
    agents: int, cover: int, quorum: int, least: int
) -> None:
    assert floor(36, cover, agents, quorum) == least
