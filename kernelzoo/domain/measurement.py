"""What an agent reports of one candidate: raw samples, or the stage at which it failed."""

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
    """What the server's recomputation of sampled entries says, and whether its author is believed.

    `QUARANTINED`: right, but of an identity that failed a check. `UNJUDGED`: no worker came to a
    verdict in several attempts. Only `VERIFIED` counts.
    """

    PENDING = "pending"
    VERIFIED = "verified"
    REJECTED = "rejected"
    QUARANTINED = "quarantined"
    UNJUDGED = "unjudged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Each sample is the mean time of one call, in nanoseconds, over `calls_per_sample` calls.

    `reference_ns` are samples of the lease's reference kernel, interleaved with `samples_ns`.
    `sampled_entries` are output values at the positions that the lease's seed names.
    A failure has no samples; `detail` says what happened.
    """

    candidate_id: str
    outcome: Outcome
    samples_ns: tuple[float, ...]
    reference_ns: tuple[float, ...]
    calls_per_sample: int
    sampled_entries: tuple[float, ...]
    detail: str

    @property
    def relative_time(self) -> float | None:
        """Best sample over the best of the reference beside it; None for a failure.

        The minimum of interleaved samples ranks better than their median: noise only adds time.
        """
        if not (self.samples_ns and self.reference_ns):
            return None
        return min(self.samples_ns) / min(self.reference_ns)
