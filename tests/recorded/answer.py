"""What the page answers (`bench/page/src/race.ts`), and the device that answers make."""

from collections.abc import Sequence
from statistics import multimode

import msgspec

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.device import DeviceClass, Engine, Hardware, PrimitiveVector, ProbeLevels
from kernelzoo.domain.target import Target, TargetKind
from tests.recorded.dataset import Dataset, RecordedCandidate, RecordedDevice, read, write


class Session(msgspec.Struct, frozen=True, kw_only=True):
    hardware: Hardware
    engine: Engine
    features: tuple[str, ...]
    rho: str
    peak_gflops: float
    probe: ProbeLevels | None

    @property
    def device_class(self) -> DeviceClass:
        return DeviceClass(
            device_id=self.hardware.device_id,
            rho=PrimitiveVector.parse(self.rho),
            target=Target.of(TargetKind.WASM, self.features),
        )


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One pass. `times`: of each candidate over that of the reference beside it."""

    session: Session
    times: dict[str, float]


def take_in(
    name: str, machine: str, candidates: Sequence[Candidate], answers: Sequence[Answer]
) -> None:
    """Puts a device into the data set in the place of what went by its name; a data set of other
    candidates is begun anew. Of several probes the class is the one that was found most often."""
    recorded = [RecordedCandidate.of(each) for each in candidates]
    known = read()
    others = known.devices if known.candidates == recorded else []
    device = _device(name, machine, [each.candidate_id for each in candidates], answers)
    devices = [*(each for each in others if each.name != name), device]
    write(Dataset(candidates=recorded, devices=devices))


def _device(
    name: str, machine: str, candidate_ids: Sequence[str], answers: Sequence[Answer]
) -> RecordedDevice:
    usual = multimode(str(each.session.device_class) for each in answers)[0]
    session = next(each.session for each in answers if str(each.session.device_class) == usual)
    return RecordedDevice(
        name=name,
        machine=machine,
        device_class=usual,
        engine=session.engine,
        peak_gflops=session.peak_gflops,
        probe=session.probe,
        passes=[[_rounded(each.times.get(one)) for one in candidate_ids] for each in answers],
    )


def _rounded(time: float | None) -> float | None:
    """To a thousandth of the reference: a tenth of what two runs differ by at best."""
    return None if time is None else round(time, 3)
