"""Structured logs: one event a line, JSON in production, readable text at a terminal."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

log = structlog.get_logger(__name__)

LINES = 60
WITHIN_S = 60.0
"""At most so many lines of one event in so long: a task that fails again and again wrote 20 GB a
day."""
MOST_EVENTS = 1024
"""Told apart. Ours are literals; a library may put what strangers sent into its own."""


@dataclass(slots=True)
class _Window:
    until_s: float
    lines: int = 0
    left_out: int = 0


class RateLimit(logging.Filter):
    """Leaves out lines of an event past `lines` within `within_s`, and says later how many.

    A filter of the handler, and no processor of structlog: so it holds for Celery's, uvicorn's and
    psycopg's lines as well, tracebacks of failed tasks among them.
    """

    def __init__(
        self,
        lines: int = LINES,
        within_s: float = WITHIN_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._lines, self._within_s, self._now_s = lines, within_s, now_s
        self._windows: dict[tuple[str, str], _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == __name__:
            return True
        self._tell_what_was_left_out()
        key = record.name, _event(record)
        if key not in self._windows and len(self._windows) >= MOST_EVENTS:
            key = record.name, ""
        window = self._windows.setdefault(key, _Window(self._now_s() + self._within_s))
        if window.lines >= self._lines:
            window.left_out += 1
            return False
        window.lines += 1
        return True

    def _tell_what_was_left_out(self) -> None:
        now_s = self._now_s()
        over = [key for key, window in self._windows.items() if window.until_s <= now_s]
        for key in over:
            window = self._windows.pop(key, None)
            if window is not None and window.left_out:
                log.warning(
                    "lines left out",
                    of=key[0],
                    what=key[1],
                    left_out=window.left_out,
                    within_s=self._within_s,
                )


def _event(record: logging.LogRecord) -> str:
    """Returns the message without its arguments: structlog's event, or a format of the
    library's."""
    told = record.msg.get("event", "") if isinstance(record.msg, dict) else record.msg
    return str(told)[:120]


def configure_logging(*, as_json: bool) -> None:
    """Sends structlog and the standard library's loggers through one renderer to stderr."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    handler.addFilter(RateLimit())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
