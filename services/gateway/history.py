"""Why each version of a key came, as it was kept with it."""

from enum import StrEnum


class Reason(StrEnum):
    """FIRST: the first ballots; LEAD: another leads before the quorum; QUORUM: it is there;
    CHALLENGE: a challenger beat the champion, or the default kernel took its place again;
    DECIDED: no vote alone, but what is kept in words.
    """

    FIRST = "first"
    LEAD = "lead"
    QUORUM = "quorum"
    CHALLENGE = "challenge"
    DECIDED = "decided"


def reason(kept: str, *, served: bool, served_before: bool | None) -> Reason:
    """`kept`: the words. `served_before`: of the version before this one, none for the first."""
    if kept:
        return Reason.DECIDED
    if served:
        return Reason.CHALLENGE if served_before else Reason.QUORUM
    return Reason.FIRST if served_before is None else Reason.LEAD
