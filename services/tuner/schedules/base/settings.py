"""Reads the settings of a candidate: each of its kind, all there, none twice."""

from dataclasses import asdict, fields
from enum import StrEnum
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from kernelzoo.domain.candidate import FAMILY, Candidate, Setting
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.ir.f16_storage import F16Storage
from services.tuner.schedules.base.f16_storage import SETTING, SHADER_F16

BASE = ("simd128",)
RELAXED = ("relaxed-simd", "simd128")


class Config(Protocol):
    """The settings of one family for one target: a frozen dataclass, a field for each of them."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    family: ClassVar[str]

    def candidate(self, workload: Workload) -> Candidate:
        """The candidate whose config holds these settings and the name of the family."""


Read = TypeVar("Read", bound=Config)


class CandidateSettings(Generic[Read]):
    """The settings of a candidate as `config`, a value of the given class, whose fields say of what
    type each is: a whole number, true or false, or one of an enumeration.

    Raises InvalidSchedule where the candidate's config has not exactly `family`, which is that of
    the class, and its fields, sorted.
    """

    def __init__(
        self, candidate: Candidate, config: type[Read], target: TargetKind = TargetKind.WASM
    ) -> None:
        if candidate.target is not target:
            raise InvalidSchedule(f"a {candidate.target} candidate is no schedule for {target}")
        known = (FAMILY, *(field.name for field in fields(config)))
        if candidate.workload.stores_f16:
            known = (*known, SETTING)
        names = [name for name, _ in candidate.config]
        if names != sorted(known):
            strange = sorted(set(names) ^ set(known)) or names
            raise InvalidSchedule(
                f"config setting {str(strange[0])[:40]!r} is unknown, missing, repeated or out of "
                f"order; give exactly {', '.join(sorted(known))}, sorted"
            )
        self._candidate = candidate
        if candidate.family != config.family:
            raise InvalidSchedule(
                f"config setting family is {candidate.family[:40]!r}; "
                f"these settings are those of family {config.family}"
            )
        self._values = dict(candidate.config)
        self._f16_storage = (
            self._read(SETTING, F16Storage) if SETTING in self._values else F16Storage.PACKED
        )
        read = {field.name: self._read(field.name, field.type) for field in fields(config)}
        self.config = config(**read)

    def _read(self, name: str, wanted: Any) -> Any:
        value = self._values[name]
        if wanted in (int, bool):
            if type(value) is not wanted:
                what = "a whole number" if wanted is int else "true or false"
                raise InvalidSchedule(f"config setting {name} must be {what}")
            return value
        choices: tuple[StrEnum, ...] = tuple(wanted)
        if not isinstance(value, str) or value not in choices:
            raise InvalidSchedule(f"config setting {name} must be one of {', '.join(choices)}")
        return wanted(value)

    def refuse_fault(self, fault: str) -> None:
        if fault:
            raise InvalidSchedule(f"config of {self._candidate.workload.key} is refused: {fault}")

    def refuse_features(self, wanted: tuple[str, ...]) -> None:
        """Raises InvalidSchedule where the candidate requires anything else, besides the type
        f16."""
        if self._f16_storage is F16Storage.NATIVE:
            wanted = tuple(sorted((*wanted, SHADER_F16)))
        said = self._candidate.requires
        if said != wanted:
            raise InvalidSchedule(
                f"candidate says it requires {', '.join(said) or 'nothing'}; "
                f"with its settings it must say {', '.join(wanted) or 'nothing'}"
            )


def wasm_candidate(workload: Workload, config: Config, wanted: tuple[str, ...]) -> Candidate:
    """A candidate for wasm that requires what is `wanted`, sorted."""
    return _candidate(workload, TargetKind.WASM, config, {}, wanted)


def webgpu_candidate(workload: Workload, config: Config, wanted: tuple[str, ...]) -> Candidate:
    """A candidate for webgpu that requires what is `wanted`, sorted. Tensors of f16 are packed."""
    storage: dict[str, Setting] = {SETTING: F16Storage.PACKED} if workload.stores_f16 else {}
    return _candidate(workload, TargetKind.WEBGPU, config, storage, wanted)


def _candidate(
    workload: Workload,
    target: TargetKind,
    config: Config,
    others: dict[str, Setting],
    wanted: tuple[str, ...],
) -> Candidate:
    """The config is sorted by name, and holds each choice as text."""
    settings: dict[str, Setting] = {FAMILY: config.family, **asdict(config), **others}
    plain = sorted((n, str(v) if isinstance(v, str) else v) for n, v in settings.items())
    return Candidate(workload=workload, target=target, config=tuple(plain), requires=wanted)
