"""The programs whose text this process has read, by the keys of their workloads.

A key ends in a hash of the text, so that it means the same in every process and for good; what is
learnt twice is the same. Rows, messages and requests carry keys alone. `kernelzoo.store.programs`
reads the texts that a process does not have yet.

Strangers send programs, so that no more than `MOST_KNOWN` are kept: the one that was learnt longest
ago goes first, and is read again when it is asked for. A workload holds its program by itself.
"""

from dataclasses import dataclass
from typing import Self

from kernelzoo.domain.operators.expressions import Program
from kernelzoo.errors import InvalidInput


class UnknownProgram(InvalidInput):
    """A key names a program whose text is not here."""

    @classmethod
    def of(cls, key: str) -> Self:
        return cls(
            f"the program {key[:80]} is not registered; import the model that has it, or register "
            "its text"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownProgram:
    """`roundings`: how far two right results may differ, in units of one rounding to f32; None
    where nobody has evaluated the program yet (`services.aggregator.rounding`)."""

    program: Program
    roundings: float | None = None


MOST_KNOWN = 4096
"""A network has up to 300 programs, and a parsed one takes 10 to 50 kB."""

_KNOWN: dict[str, KnownProgram] = {}


def learn(key: str, known: KnownProgram) -> None:
    """Keeps the text of a program. What is known of its roundings is kept with it."""
    before = _KNOWN.pop(key, None)
    _KNOWN[key] = known if before is None or before.roundings is None else before
    while len(_KNOWN) > MOST_KNOWN:
        del _KNOWN[next(iter(_KNOWN))]


def known(key: str) -> KnownProgram:
    found = _KNOWN.get(key)
    if found is None:
        raise UnknownProgram.of(key)
    return found


def known_program(key: str) -> Program | None:
    """None where the text of a program is not here."""
    found = _KNOWN.get(key)
    return None if found is None else found.program


def is_evaluated(key: str) -> bool:
    """Returns whether everything about a program is known here."""
    return key in _KNOWN and _KNOWN[key].roundings is not None
