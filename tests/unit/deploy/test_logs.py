"""Logs are limited in rate, and say how much they left out."""

import json
import logging
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest
import structlog

from kernelzoo.telemetry import LINES, MOST_EVENTS, RateLimit, configure_logging

Lines = Callable[[], list[dict[str, object]]]


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def handler() -> Iterator[logging.StreamHandler[Any]]:
    """The handler of a process of ours; afterwards logging is as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure_logging(as_json=True)
    (ours,) = root.handlers
    assert isinstance(ours, logging.StreamHandler)
    yield ours
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def written(handler: logging.StreamHandler[Any], clock: Clock) -> Lines:
    """Returns what is written since the last look, at most three lines of an event in ten
    seconds."""
    handler.filters[:] = [RateLimit(3, 10, clock)]
    return _lines_of(handler)


def _lines_of(handler: logging.StreamHandler[Any]) -> Lines:
    handler.setStream(stream := StringIO())

    def lines() -> list[dict[str, object]]:
        text = stream.getvalue()
        stream.seek(0)
        stream.truncate()
        return [json.loads(line) for line in text.splitlines()]

    return lines


def test_what_is_said_again_and_again_is_left_out_and_counted(written: Lines, clock: Clock) -> None:
    log = structlog.get_logger("workers.aggregating")
    for lease in range(50):
        log.info("failed a check", lease=lease)
    log.info("published")
    assert [line["event"] for line in written()] == ["failed a check"] * 3 + ["published"]
    clock.now_s = 10.0
    log.info("failed a check", lease=50)
    left_out, again = written()
    assert (left_out["event"], left_out["what"]) == ("lines left out", "failed a check")
    assert (left_out["of"], left_out["left_out"]) == ("workers.aggregating", 47)
    assert (again["event"], again["lease"]) == ("failed a check", 50)


def test_counts_of_an_event_that_ended_are_told_with_the_next_of_any(
    written: Lines, clock: Clock
) -> None:
    for _ in range(5):
        structlog.get_logger("a").warning("broker away")
    clock.now_s = 11.0
    structlog.get_logger("b").info("rang")
    assert [line["event"] for line in written()][3:] == ["lines left out", "rang"]


def test_lines_of_libraries_are_limited_by_their_format(written: Lines) -> None:
    log = logging.getLogger("celery.app.trace")
    for number in range(20):
        try:
            raise ZeroDivisionError
        except ZeroDivisionError:
            log.exception("Task %s raised unexpected: %s", number, "float division by zero")
    assert len(written()) == 3


def test_a_library_that_puts_strangers_words_into_events_fills_no_memory(clock: Clock) -> None:
    limit = RateLimit(3, 10, clock)
    records = (
        logging.LogRecord("uvicorn", logging.INFO, "", 0, f"bad request {number}", (), None)
        for number in range(5 * MOST_EVENTS)
    )
    assert sum(map(limit.filter, records)) == MOST_EVENTS + 3
    assert len(limit._windows) <= MOST_EVENTS + 1


def test_every_process_limits_its_logs(handler: logging.StreamHandler[Any]) -> None:
    written = _lines_of(handler)
    for _ in range(2 * LINES):
        structlog.get_logger("x").info("no census")
    assert len(written()) == LINES
