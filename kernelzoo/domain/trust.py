"""What stands between strangers and the zoo. docs/trust.md says what each is for."""

from enum import StrEnum


class Defence(StrEnum):
    """CHALLENGE: the sequential test before a kernel takes a champion's place; without it whoever
    leads the vote is served. NETWORKS: few ballots of one network count."""

    CHALLENGE = "challenge"
    NETWORKS = "networks"


ALL_DEFENCES = frozenset(Defence)
