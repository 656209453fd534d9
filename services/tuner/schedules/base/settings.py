"""Reads the settings of a candidate: each of its kind, all there, none twice."""

from collections.abc import Mapping
from dataclasses import fields

from kernelzoo.domain.candidate import Candidate, Setting
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.schedules.base.f16_storage import SETTING, SHADER_F16, Halves, has_halves

BASE = ("simd128",)
RELAXED = ("relaxed-simd", "simd128")


def requires(*, fma: bool) -> tuple[str, ...]:
    return RELAXED if fma else BASE


class Settings:
    """Raises InvalidSchedule where the config has not exactly the fields of `kind_of_config`, a
    dataclass, sorted."""

    def __init__(
        self, candidate: Candidate, kind_of_config: type, kind: TargetKind = TargetKind.WASM
    ) -> None:
        if candidate.kind is not kind:
            raise InvalidSchedule(f"a {candidate.kind} candidate is no schedule for {kind}")
        known = tuple(field.name for field in fields(kind_of_config))
        if has_halves(candidate.workload):
            known = (*known, SETTING)
        names = [name for name, _ in candidate.config]
        if names != sorted(known):
            strange = sorted(set(names) ^ set(known)) or names
            raise InvalidSchedule(
                f"config setting {str(strange[0])[:40]!r} is unknown, missing, repeated or out of "
                f"order; give exactly {', '.join(sorted(known))}, sorted"
            )
        self._candidate = candidate
        self._values = dict(candidate.config)
        self._halves = Halves.PACKED
        if SETTING in self._values:
            self._halves = Halves(self.choice(SETTING, tuple(Halves)))
            del self._values[SETTING]

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
        self.refuse_fault(fault)
        self.refuse_features(requires(fma=fma))

    def wholes(self, *others: str) -> dict[str, int]:
        """Every setting but `others`, by name."""
        return {name: self.whole(name) for name in self._values if name not in others}

    def refuse_fault(self, fault: str) -> None:
        if fault:
            raise InvalidSchedule(f"config of {self._candidate.workload.key} is refused: {fault}")

    def refuse_features(self, wanted: tuple[str, ...]) -> None:
        """Raises InvalidSchedule where the candidate requires anything else, besides the type of
        halves."""
        if self._halves is Halves.NATIVE:
            wanted = tuple(sorted((*wanted, SHADER_F16)))
        said = self._candidate.requires
        if said != wanted:
            raise InvalidSchedule(
                f"candidate says it requires {', '.join(said) or 'nothing'}; "
                f"with its settings it must say {', '.join(wanted) or 'nothing'}"
            )


def candidate_of(workload: Workload, settings: Mapping[str, Setting], *, fma: bool) -> Candidate:
    """A candidate for wasm."""
    return _candidate(workload, TargetKind.WASM, settings, requires(fma=fma))


def gpu_candidate(
    workload: Workload, settings: Mapping[str, Setting], wanted: tuple[str, ...]
) -> Candidate:
    """A candidate for webgpu that requires what is `wanted`, sorted; halves are packed."""
    if has_halves(workload):
        settings = {**settings, SETTING: Halves.PACKED}
    return _candidate(workload, TargetKind.WEBGPU, settings, wanted)


def _candidate(
    workload: Workload, kind: TargetKind, settings: Mapping[str, Setting], wanted: tuple[str, ...]
) -> Candidate:
    """The config is sorted by name, and holds each choice as text."""
    config = sorted((n, str(v) if isinstance(v, str) else v) for n, v in settings.items())
    return Candidate(workload=workload, kind=kind, config=tuple(config), requires=wanted)
