"""Why each version of a key came: told by what it differs in from the one before it."""

from enum import StrEnum


class Reason(StrEnum):
    """FIRST: the first ballots; LEAD: another leads before the quorum; QUORUM: it is there;
    CHALLENGE: a challenger beat the champion, or the default kernel took its place again.
    """

    FIRST = "first"
    LEAD = "lead"
    QUORUM = "quorum"
    CHALLENGE = "challenge"


def reason(ballots: int, ballots_before: int | None, *, quorum: int) -> Reason:
    """`ballots_before`: of the version before, null for the first. A retired entry does not say
    whether it was confirmed, but its last evidence does: it was if it had a quorum.
    """
    if ballots_before is None:
        return Reason.QUORUM if ballots >= quorum else Reason.FIRST
    if ballots < quorum:
        return Reason.LEAD
    return Reason.CHALLENGE if ballots_before >= quorum else Reason.QUORUM
