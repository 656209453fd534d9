"""A page that tunes itself is sent candidates in an order."""

from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.store.models import CallTimeRow
from kernelzoo.store.queue import QueuedRow
from services.gateway.queueing import (
    Batch,
    batches,
    compiled_since,
    read_together,
    tried,
    waiting,
)

NOW = 1_767_225_600.0


def called(
    key: str, calls: int, flops: int, ns: float | None, state: str = "missing"
) -> CallTimeRow:
    return CallTimeRow(
        workload_key=WorkloadKey(key), calls=calls, flops=flops, state=state, expected_ns=ns
    )


def space(
    key: str,
    compiled: int,
    waits: int = 0,
    relative: float | None = None,
    predicted: float | None = None,
) -> list[QueuedRow]:
    return [
        QueuedRow(
            workload_key=WorkloadKey(key),
            candidate_id=f"{key}{number}",
            compiled_s=NOW if number < compiled else None,
            relative_time=relative if number == 0 else None,
            predicted=predicted,
        )
        for number in range(compiled + waits)
    ]


def names(found: tuple[Batch, ...]) -> list[str]:
    return [" ".join(str(row.candidate_id) for row in batch.candidates) for batch in found]


def test_a_page_is_sent_nothing_of_kernels_that_only_short_extents_call() -> None:
    left = tried([called("large", 2, 9, None), called("short", 0, 9, None)], space("short", 2))
    assert [each.workload_key for each in left] == ["large"]


def test_what_may_win_most_time_comes_first_and_each_workload_before_the_second_of_any() -> None:
    left = tried(
        [
            called("often", 10, 1, 100.0),
            called("long", 1, 9, 2000.0),
            called("untimed", 1, 900, None),
            called("settled", 9, 9, 9e9, "confirmed"),
        ],
        [*space("often", 5), *space("long", 6, relative=0.99), *space("untimed", 1)],
    )
    # Ten calls of 100 ns of which 9 % may be won; one of 2,000 of which 1 % is known to be; and 900
    # operations at the 158 ns that one of the timed takes.
    assert names(batches(left, {}, each=5)) == [
        "untimed0",
        "often0 often1 often2 often3",
        "long0 long1 long2 long3",
        "often4",
        "long4",
    ]


def test_what_nobody_has_measured_may_win_what_the_cost_model_foretells() -> None:
    rows = [called(key, 1, 1, 100.0) for key in ("unknown", "slower", "measured", "foretold")]
    spaces = [
        space("unknown", 1),
        space("slower", 1, predicted=1.2),
        space("measured", 1, relative=0.8, predicted=0.1),
        space("foretold", 1, predicted=0.7),
    ]
    left = tried(rows, [row for each in spaces for row in each])
    # 30 %, 20 % as it was measured, the usual 9 %, and nothing.
    assert [each.workload_key for each in left] == ["foretold", "measured", "unknown", "slower"]
    assert [round(each.gain, 2) for each in left] == [0.3, 0.2, 0.09, 0.0]


def test_what_was_sent_or_is_too_much_is_left_out_and_what_is_to_come_is_counted() -> None:
    left = tried(
        [called("a", 1, 1, 1.0), called("b", 1, 1, 1.0)], [*space("a", 6, 9), *space("b", 1, 3)]
    )
    sent = {"a": {"a0", "a1", "a2"}}
    assert names(batches(left, sent, each=4)) == ["a3", "b0"]
    assert waiting(left, sent, each=4) == 12
    assert waiting(left, sent, each=3) == 3
    assert batches(compiled_since(left, NOW), {}, each=4) == ()


def test_kernels_of_lines_to_come_are_read_together_and_of_the_first_alone() -> None:
    left = tried([called("a", 1, 1, None), called("b", 1, 1, None)], space("a", 9) + space("b", 9))
    found = batches(left, {}, each=9)
    assert [len(each.candidates) for each in found] == [4, 4, 4, 4, 1, 1]
    for most, together in ((8, [1, 2, 3]), (4, [1, 1, 1, 1, 2]), (1, [1] * 6), (99, [1, 5])):
        read = list(read_together(found, most))
        assert [len(each) for each in read] == together
        assert tuple(batch for each in read for batch in each) == found, "in their order"
    assert list(read_together((), 8)) == []
