"""Reads the settings of a candidate: each of its kind, all there, none twice."""

from collections.abc import Mapping

from kernelzoo.domain.candidate import Candidate, Setting
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule

BASE = ("simd128",)
RELAXED = ("relaxed-simd", "simd128")


def requires(*, fma: bool) -> tuple[str, ...]:
    return RELAXED if fma else BASE


class Settings:
    """Raises InvalidSchedule where the config has not exactly the `known` names, sorted."""

    def __init__(self, candidate: Candidate, known: tuple[str, ...]) -> None:
        if candidate.kind is not TargetKind.WASM:
            raise InvalidSchedule(f"{candidate.kind} candidates are not compiled yet; use wasm")
        names = [name for name, _ in candidate.config]
        if names != sorted(known):
            strange = sorted(set(names) ^ set(known)) or names
            raise InvalidSchedule(
                f"config setting {str(strange[0])[:40]!r} is unknown, missing, repeated or out of "
                f"order; give exactly {', '.join(sorted(known))}, sorted"
            )
        self._values = dict(candidate.config)
        self._candidate = candidate

    def whole(self, name: str) -> int:
        value = self._values[name]
        if type(value) is not int:
            raise InvalidSchedule(f"config setting {name} must be a whole number")
        return value

    def switch(self, name: str) -> bool:
        value = self._values[name]
        if type(value) is not bool:
            raise InvalidSchedule(f"config setting {name} must be true or false")
        return value

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        value = self._values[name]
        if not isinstance(value, str) or value not in choices:
            raise InvalidSchedule(f"config setting {name} must be one of {', '.join(choices)}")
        return value

    def refuse(self, fault: str, *, fma: bool) -> None:
        """Raises InvalidSchedule for a fault, and for features that the settings do not need."""
        candidate = self._candidate
        if fault:
            raise InvalidSchedule(f"config of {candidate.workload.key} is refused: {fault}")
        if candidate.requires != requires(fma=fma):
            raise InvalidSchedule(
                f"candidate says it requires {', '.join(candidate.requires) or 'nothing'}; "
                f"with fma={fma} it must say {', '.join(requires(fma=fma))}"
            )


def candidate_of(workload: Workload, settings: Mapping[str, Setting], *, fma: bool) -> Candidate:
    """The settings as a candidate: sorted by name, each choice as the text that a config holds."""
    config = ((n, str(v) if isinstance(v, str) else v) for n, v in settings.items())
    return Candidate(
        workload=workload,
        kind=TargetKind.WASM,
        config=tuple(sorted(config)),
        requires=requires(fma=fma),
    )
