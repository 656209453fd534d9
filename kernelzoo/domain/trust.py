"""What stands between strangers and the zoo. docs/trust.md says what each is for."""

from enum import StrEnum


class Defence(StrEnum):
    """CHALLENGE: the sequential test before a kernel takes a champion's place; without it whoever
    leads the vote is served. NETWORKS: few ballots of one network count."""

    CHALLENGE = "challenge"
    NETWORKS = "networks"


ALL_DEFENCES = frozenset(Defence)

PROVEN = 10
"""Valid leases in a row before an identity is checked less than always (BOINC, sched_send.cpp)."""


def recheck_probability(valid_in_row: int) -> float:
    """Share of an identity's leases that carry a hidden control."""
    return 1.0 if valid_in_row < PROVEN else 1 / valid_in_row
