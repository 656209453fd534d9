"""Keys that a zoo has tuned to the end and a referee has judged, in figures and in a file."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Self

import msgspec

from bench.crowd.finals import BEFORE, MORE_WORK, NEAR, WITHIN
from bench.crowd.referee import (
    Judgement,
    RefereePage,
    TimesOver,
    over,
    over_best,
    page_ratio,
)
from bench.report import CannotMeasure, Cell, Claim, commit, core, cpu_model
from kernelzoo.domain.ballot import CastBallot
from services.aggregator.vote import median_times

CLOSE = 0.05
"""Kernels are compared that are slower than what is served by at most this share, as agents or a
first page of the referee found. Of first measurements a tenth is off by more (docs/adr/0097), of
paired rounds none."""
MOST = 14
"""Kernels of a key that are compared, the fastest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedKey:
    """A key as it is served at its end, and what that rests on: the ballots as they are counted.
    `samples`: those that measurements report, and five of each kernel and the default for each
    ballot of paired rounds, which are as many at least.
    """

    workload: str
    candidates: int
    measurements: int
    samples: int
    served: str
    default: str
    final: bool
    contenders: tuple[str, ...]
    versions: int
    cast: tuple[CastBallot, ...]

    @property
    def measured(self) -> tuple[str, ...]:
        """Names all that any agent measured, and the default, which all did."""
        names = (line.candidate_id for each in self.cast for line in each.measured)
        return tuple(dict.fromkeys((self.default, self.served, *names)))

    def close(self, screened: RefereePage) -> tuple[str, ...]:
        """Names what is served, the default, and whatever is nearly as fast by first measurements,
        by paired rounds or by `screened`, a page with all that was measured.
        """
        first = [{line.candidate_id: line.relative_time for line in c.measured} for c in self.cast]
        paired = [each.paired_times for each in self.cast]
        told = [median_times(voters, self.default) for voters in (first, paired)]
        ratios = [
            {name: time / times[self.served] for name, time in times.items()}
            for times in told
            if self.served in times
        ]
        ratios += [{name: page_ratio(screened, name, self.served) for name in screened}]
        least = {
            name: min(each[name] for each in ratios if name in each)
            for name in {name for each in ratios for name in each}
        }
        fastest = sorted(least, key=lambda name: (least[name], name))
        close = [name for name in fastest if least[name] <= 1 + CLOSE]
        return tuple(dict.fromkeys((self.served, self.default, *close)))[:MOST]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedKey:
    """`screened`: a page with all that was measured, `pages` those with what is close.
    `others_busy`: cores that others kept busy while these were open."""

    key: TunedKey
    screened: RefereePage
    pages: tuple[RefereePage, ...]
    others_busy: float

    @property
    def over_best(self) -> TimesOver:
        return over_best(self.pages, self.key.served)

    @property
    def over_default(self) -> TimesOver:
        return over(self.pages, self.key.served, self.key.default)

    @property
    def judgement(self) -> Judgement:
        return self.over_best.judged(1 + NEAR)

    @property
    def is_slower_than_default(self) -> bool:
        return self.over_default.judged(1.0) is Judgement.BEYOND

    def row(self) -> dict[str, Cell]:
        best, default = self.over_best, self.over_default
        return {
            "workload": self.key.workload,
            "core": core(),
            "candidates": self.key.candidates,
            "measurements": self.key.measurements,
            "samples": self.key.samples,
            "final": "yes" if self.key.final else "no",
            "versions": self.key.versions,
            "compared": len(self.pages[0]),
            "pages": len(self.pages),
            "over_best": best.middle,
            "from": best.low,
            "to": best.high,
            "within": self.judgement,
            "over_default": default.middle,
            "default_from": default.low,
            "default_to": default.high,
            "others_busy": self.others_busy,
        }

    @property
    def sentence(self) -> str:
        best = self.over_best
        return (
            f"{self.key.workload}: {'final' if self.key.final else 'not final'} after "
            f"{self.key.measurements} measurements; {best.middle:.3f} of the best's time "
            f"({best.low:.3f} to {best.high:.3f}), {self.over_default.middle:.3f} of the default's"
        )


def claims(judged: Sequence[JudgedKey]) -> Iterator[Claim]:
    told = [each.judgement for each in judged if each.judgement is not Judgement.OPEN]
    if told:
        of = f"{len(told)} of {len(judged)} keys, of which the referee can tell"
        within = fmean(each is Judgement.WITHIN for each in told)
        yield Claim.at_least(f"within 1 % of the best measured, {of}", within, "", WITHIN)
    middle = fmean(each.over_best.middle <= 1 + NEAR for each in judged)
    of = f"{len(judged)} keys, by the median of pages"
    yield Claim.at_least(f"within 1 % of the best measured, {of}", middle, "", WITHIN)
    slower = sum(each.is_slower_than_default for each in judged)
    yield Claim.at_most("slower than the default by more than the spread", slower, "keys", 0)
    yield Claim.at_least("final", fmean(each.key.final for each in judged), "", 1.0)
    work = fmean(each.key.measurements for each in judged) / BEFORE[0.0]
    yield Claim.at_most("measurements of a key over those of before", work, "×", MORE_WORK)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptHead:
    """The keys of one file are of one commit and processor."""

    commit: str | None
    cpu: str

    @classmethod
    def now(cls) -> Self:
        return cls(commit=commit(), cpu=cpu_model())


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptKeys:
    """Judged keys, in a file too where there is one: a line of JSON each, behind its head."""

    file: Path | None
    judged: list[JudgedKey]

    @classmethod
    def opened(cls, file: Path | None) -> Self:
        """Raises CannotMeasure for a file of another commit or processor. A line that was being
        written when its run died is taken away, and its key is judged anew."""
        if file is None:
            return cls(file=None, judged=[])
        if not file.exists() or file.stat().st_size == 0:
            file.write_bytes(msgspec.json.encode(KeptHead.now()) + b"\n")
        body = file.read_bytes()
        whole, _, unfinished = body.rpartition(b"\n")
        head, *lines = whole.split(b"\n")
        try:
            kept = msgspec.json.decode(head, type=KeptHead)
            judged = [msgspec.json.decode(line, type=JudgedKey) for line in lines]
        except msgspec.MsgspecError as error:
            raise CannotMeasure(f"{file} holds no judged keys: {error}") from error
        if kept != (now := KeptHead.now()):
            raise CannotMeasure(
                f"{file} is of commit {kept.commit} on {kept.cpu}, and this is {now.commit} on "
                f"{now.cpu}; name another file"
            )
        if unfinished:
            os.truncate(file, len(body) - len(unfinished))
        return cls(file=file, judged=judged)

    def left(self, workloads: Sequence[str]) -> list[str]:
        done = {each.key.workload for each in self.judged}
        return [workload for workload in workloads if workload not in done]

    def add(self, judged: JudgedKey) -> None:
        self.judged.append(judged)
        if self.file is not None:
            with self.file.open("ab") as lines:
                lines.write(msgspec.json.encode(judged) + b"\n")
