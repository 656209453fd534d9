"""Checks of what others wrote: sizes, kinds and names, before anything is believed."""

import json
import math
import re
from collections.abc import Iterable

from kernelzoo.domain.candidate import Setting
from kernelzoo.errors import InvalidInput
from kernelzoo.formats.results import Config

MAX_BYTES = 16 << 20
MAX_TRIALS = 100_000
MAX_SETTINGS = 64
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_TEXT = 256

Json = dict[str, object] | list[object] | str | int | float | bool | None


def parse(text: str, what: str) -> Json:
    """Raises InvalidInput for what is too long, no JSON, or nested without end."""
    if len(text) > MAX_BYTES:
        raise InvalidInput(f"{what} is longer than {MAX_BYTES} characters; import it in parts")
    try:
        parsed: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} is no JSON: {str(error)[:120]}") from error
    return parsed


def table(value: object, what: str) -> dict[str, object]:
    """Raises InvalidInput for anything but an object."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{what} must be an object with named fields")
    return value


def row(value: object, what: str) -> list[object]:
    """Raises InvalidInput for anything but a list of at most `MAX_TRIALS` entries."""
    if not isinstance(value, list):
        raise InvalidInput(f"{what} must be a list")
    if len(value) > MAX_TRIALS:
        raise InvalidInput(f"{what} has more than {MAX_TRIALS} entries; import it in parts")
    return value


def text(value: object, what: str) -> str:
    """Raises InvalidInput for anything but short printable text."""
    if not isinstance(value, str) or len(value) > _TEXT or not value.isprintable():
        raise InvalidInput(f"{what} must be text of at most {_TEXT} printable characters")
    return value


def time(value: object) -> float | None:
    """None for what is no positive time, as tuners write for failures."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < math.inf else None


def refuse_objective(value: object) -> None:
    """Raises InvalidInput for anything but time: of a rate the largest would be the best."""
    if value != "time":
        raise InvalidInput(f"the objective is {str(value)[:40]!r}; export the times instead")


def config(pairs: Iterable[tuple[object, object]]) -> Config:
    """Sorted by name. Raises InvalidInput for what cannot be the settings of a kernel."""
    settings: dict[str, Setting] = {}
    for name, value in pairs:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in settings:
            raise InvalidInput(f"setting {str(name)[:40]!r} is no name, or is there twice")
        settings[name] = _setting(name, value)
    if len(settings) > MAX_SETTINGS:
        raise InvalidInput(f"a config has more than {MAX_SETTINGS} settings")
    return tuple(sorted(settings.items()))


def _setting(name: str, value: object) -> Setting:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return int(value)
    if isinstance(value, bool | int):
        return value
    return text(value, f"setting {name}")
