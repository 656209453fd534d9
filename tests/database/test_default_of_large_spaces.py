"""The default kernel of a class is found without looking up its whole space."""

import pytest

from fixtures.rows import compile_row
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.store import chain, zoo
from kernelzoo.store.blocking import fetch_all
from tests.database.conftest import Connection, open_space
from tests.database.rows_read import BY_INDEXES, rows_read

WORKLOAD = Workload.of("matmul", (5, 6, 7))
OTHER = Workload.of("matmul", (8, 6, 7))
CLASS = DeviceClass.parse("00000000000000aa:r1-0:wasm+simd128")
SPACE = 50


@pytest.fixture
def spaces(db: Connection) -> list[Candidate]:
    """Two workloads; what the first promises most needs what the class has not."""
    for workload in (OTHER, WORKLOAD):
        space = [
            Candidate(
                workload=workload,
                target=TargetKind.WASM,
                config=(("tile", tile),),
                requires=("relaxed-simd",) if tile < 2 else (),
            )
            for tile in range(SPACE)
        ]
        open_space(db, space)
        for candidate in space:
            compile_row(db, candidate)
    return space


def test_a_default_is_the_first_that_fits_and_nothing_behind_it_is_looked_up(
    db: Connection, spaces: list[Candidate]
) -> None:
    asked = zoo.default_of(WORKLOAD.key, CLASS)
    assert [row.candidate_id for row in fetch_all(db, asked)] == [spaces[2].candidate_id]
    assert rows_read(db, asked, "candidate") < SPACE / 5


@pytest.mark.usefixtures("spaces")
def test_what_a_page_can_be_served_is_looked_up_among_the_kernels_of_its_workload(
    db: Connection,
) -> None:
    asked = chain.offers([WORKLOAD.key], CLASS, space="", families={}, quorum=1)
    assert fetch_all(db, asked) == []
    assert rows_read(db, asked, "candidate") <= SPACE


@pytest.mark.usefixtures("spaces")
def test_kernels_of_several_workloads_are_read_once_whatever_way_they_are_looked_up(
    db: Connection,
) -> None:
    keys = [WORKLOAD.key, OTHER.key]
    asked = chain.offers(keys, CLASS, space="", families={}, quorum=1)
    assert fetch_all(db, asked) == []
    for without in (BY_INDEXES, ()):
        assert rows_read(db, asked, "candidate", without=without) <= SPACE * len(keys)
        assert rows_read(db, asked, "denied", without=without) == 0


@pytest.mark.usefixtures("spaces")
def test_the_version_before_asks_of_one_workload_while_the_database_is_upgraded(
    db: Connection,
) -> None:
    before = "SELECT candidate_id FROM servable(%s::text, %s, '') ORDER BY candidate_id"
    now = "SELECT candidate_id FROM servable(ARRAY[%s::text], %s, '') ORDER BY candidate_id"
    told, asked = (db.execute(sql, (WORKLOAD.key, str(CLASS))).fetchall() for sql in (before, now))
    assert told == asked
    assert len(told) == SPACE - 2
