"""Why each version of a key came: told by what it differs in from the one before it."""

from dataclasses import dataclass
from enum import StrEnum

from kernelzoo.domain.zoo import EntryState


class Reason(StrEnum):
    """FIRST: the first ballots; LEAD: another leads before the quorum; QUORUM: it is there;
    CHALLENGE: a challenger beat the champion, or the default kernel took its place again.
    """

    FIRST = "first"
    LEAD = "lead"
    QUORUM = "quorum"
    CHALLENGE = "challenge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a version tells of itself."""

    state: EntryState
    ballots: int

    def was_confirmed(self, quorum: int) -> bool:
        """A retired entry does not say it, but its last evidence does: it had a quorum."""
        if self.state is EntryState.RETIRED:
            return self.ballots >= quorum
        return self.state is EntryState.CONFIRMED


def reason(version: Standing, before: Standing | None, *, quorum: int) -> Reason:
    """`before`: the version before it, none for the first."""
    if not version.was_confirmed(quorum):
        return Reason.LEAD if before else Reason.FIRST
    if before is not None and before.was_confirmed(quorum):
        return Reason.CHALLENGE
    return Reason.QUORUM
