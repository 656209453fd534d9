"""An inference took so long, from one leading kernel to the next."""

from datetime import UTC, datetime, timedelta

import pytest

from cli.figures import duration
from cli.models.drawing import WIDTH, drawn
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.store.timelines import FirstTimeRow, VersionTimeRow
from services.gateway.timeline import timeline
from services.gateway.wire.models import ModelTimeline, SwapWire

START = datetime(2026, 1, 1, tzinfo=UTC)


def first(key: str, calls: int, flops: int, default_ns: float | None) -> FirstTimeRow:
    return FirstTimeRow(
        workload_key=WorkloadKey(key), calls=calls, flops=flops, default_ns=default_ns
    )


def version(key: str, seconds: int, relative_time: float, *, served: bool = True) -> VersionTimeRow:
    at = START + timedelta(seconds=seconds)
    return VersionTimeRow(
        workload_key=WorkloadKey(key),
        candidate_id=f"{key}-{seconds}",
        published_at=at,
        served=served,
        relative_time=relative_time,
    )


def test_each_kernel_changes_what_its_calls_take() -> None:
    found = timeline(
        [first("a", 2, 300, 50.0), first("b", 1, 200, 100.0), first("c", 1, 200, None)],
        [
            version("b", 1, 0.8, served=False),
            version("c", 2, 0.5),
            version("a", 4, 0.4),
        ],
    )
    assert found is not None
    # What nobody has timed is taken to run as fast as the rest: 200 operations of 800 in 200 ns.
    assert (found.first_ns, found.measured) == (250.0, 0.8)
    told = [(s.workload_key, s.before_ns, s.after_ns, s.elapsed_ns, s.served) for s in found.swaps]
    assert told == [("b", 100.0, 80.0, 230.0, False), ("a", 100.0, 40.0, 170.0, True)]
    assert timeline([first("a", 1, 1, None)], [version("a", 1, 1.0)]) is None


def test_votes_for_the_default_kernel_are_no_swaps_until_another_has_led() -> None:
    votes = [
        version("a", 1, 1.0, served=False),
        version("a", 2, 1.0),
        version("a", 3, 0.5),
        version("a", 4, 1.0),
    ]
    found = timeline([first("a", 1, 1, 50.0)], votes)
    assert found is not None
    assert [(each.before_ns, each.after_ns) for each in found.swaps] == [(50.0, 25.0), (25.0, 50.0)]


def swap(seconds: int, expected_ms: float, before_ms: float, *, served: bool) -> SwapWire:
    return SwapWire(
        at=(START + timedelta(seconds=seconds)).isoformat(),
        expected_ms=expected_ms,
        workload="softmax:f32:m1n10",
        candidate="0123456789abcdef0123456789abcdef",
        before_ms=before_ms,
        after_ms=before_ms - 1.0,
        served=served,
    )


def test_the_time_falls_in_the_picture_where_a_kernel_won() -> None:
    told = ModelTimeline(
        model="tiny", device_class="", dimensions={}, first_ms=4.0, measured=1.0,
        swaps=[swap(0, 3.0, 2.5, served=False), swap(100, 2.0, 1.5, served=True)],
    )  # fmt: skip
    lines = drawn(told).splitlines()
    before, leads, served = 3, WIDTH - 4, 1
    assert lines[0] == f"   4.00 ms ┤{'█' * before}{' ' * (leads + served)}"
    assert lines[3] == f"           ┤{'█' * (before + leads)}{' ' * served}"
    assert lines[7] == f"      0 ms ┤{'█' * WIDTH}"
    assert lines[8] == f"           └{' ' * before}△{' ' * (leads - 1)}▲"
    assert "105 s" in lines[9]
    assert lines[-1].startswith("      105 s  1.50 ms → 500 µs of an inference: softmax:f32:m1n10")
    assert drawn(told.model_copy(update={"swaps": []})) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (2.13e-7, "0.213 ns"),
        (0.0213, "21.3 µs"),
        (12.34, "12.3 ms"),
        (1234.4, "1,234 ms"),
    ],
)
def test_a_time_has_three_digits_that_say_something(value: float | None, text: str) -> None:
    assert duration(value) == text
