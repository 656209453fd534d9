"""An agent reports this of one candidate: raw samples, or the stage at which it failed."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """`OK`, or the stage that failed."""

    OK = "ok"
    VALIDATE = "validate"
    COMPILE = "compile"
    RUN = "run"
    COMPARE = "compare"
    TIMEOUT = "timeout"


class Verdict(StrEnum):
    """The server's recomputation of sampled entries ends in a verdict, which also says whether the
    author is believed.

    `QUARANTINED`: right, but of an identity that failed a check. `UNJUDGED`: no worker came to a
    verdict in several attempts. Only `VERIFIED` counts.
    """

    PENDING = "pending"
    VERIFIED = "verified"
    REJECTED = "rejected"
    QUARANTINED = "quarantined"
    UNJUDGED = "unjudged"


SHORTEST_FIRST_RUN = 0.5
"""A first run takes this share of the best sample at the least, as it is of the same code or of a
slower one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """A page pays this for a kernel before its runs are warm, in nanoseconds.

    `compile_ns`: until the first call may begin; of wasm in the baseline tier, of webgpu the
    pipeline. `optimise_ns`: from the first call until its code is as fast as it gets; 0 where there
    is one tier. `pack_ns`: weights into the layout that the kernel reads. `first_run_ns`: the first
    call.
    """

    compile_ns: float
    optimise_ns: float
    pack_ns: float
    first_run_ns: float

    def agrees_with(self, samples_ns: tuple[float, ...]) -> bool:
        """Returns whether a kernel that was timed so can have had this preparation."""
        return self.first_run_ns >= SHORTEST_FIRST_RUN * min(samples_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Each sample is the mean time of one call, in nanoseconds, over `calls_per_sample` calls.

    `reference_ns` are samples of the lease's reference kernel, interleaved with `samples_ns`.
    `sampled_entries` are output values at the positions that the lease's seed names.
    A failure has no samples; `detail` says what happened. `preparation` is None where it is not
    told, or contradicts the samples.
    """

    candidate_id: str
    outcome: Outcome
    samples_ns: tuple[float, ...]
    reference_ns: tuple[float, ...]
    calls_per_sample: int
    sampled_entries: tuple[float, ...]
    detail: str
    preparation: Preparation | None = None

    @property
    def relative_time(self) -> float | None:
        """Best sample over the best of the reference beside it; None for a failure.

        The minimum of interleaved samples ranks better than their median: noise only adds time.
        """
        if not (self.samples_ns and self.reference_ns):
            return None
        return min(self.samples_ns) / min(self.reference_ns)
