"""Names the defences that stand between strangers and the zoo. docs/trust.md says what each is
for."""

from dataclasses import dataclass
from enum import StrEnum


class Trust(StrEnum):
    """A zoo takes measurements of these agents. OPERATOR: of agents with the operator's key.
    APPLICATIONS: of visitors of registered origins, too, each in the name of an application. CROWD:
    of anybody.
    """

    OPERATOR = "operator"
    APPLICATIONS = "applications"
    CROWD = "crowd"


class Defence(StrEnum):
    """CHALLENGE: the sequential test before a kernel takes a champion's place; without it whoever
    leads the vote is served. NETWORKS: one ballot of each network counts. ENVELOPE: times that the
    device cannot reach. CONTROLS: kernels whose time is known, hidden in leases; and ballots that
    say what their measurements do not. REPLAYS: measurements of an earlier lease. QUARANTINE: who
    fails a check is not counted for a while; without it that lease alone is not. PROOF: a ballot
    counts after one whole valid lease. DENIALS: kernels that fail on a class are never served.
    MINIMUM: a class that few networks have visited is confirmed by them alone of nothing. SPEAKERS:
    a class speaks for others only by voters of its own, some of whom are vouched for; without it
    every class with a confirmed entry does, each as loudly as the next. WITNESSES: what is denied
    to one class holds for the device's others by the successes on them, and for none that nobody
    measures. PEERS: claims of strangers only loosen the envelope; without it a session is a peer,
    and speaks as the operator's agents do. CREDIT: a network is lent as much as it answers.
    """

    CHALLENGE = "challenge"
    NETWORKS = "networks"
    ENVELOPE = "envelope"
    CONTROLS = "controls"
    REPLAYS = "replays"
    QUARANTINE = "quarantine"
    PROOF = "proof"
    DENIALS = "denials"
    MINIMUM = "minimum"
    SPEAKERS = "speakers"
    WITNESSES = "witnesses"
    PEERS = "peers"
    CREDIT = "credit"


ALL_DEFENCES = frozenset(Defence)

PROVEN = 10
"""Valid leases in a row before an identity is checked less than always (BOINC, sched_send.cpp)."""

RELEASING = 3
"""Valid leases in a row that end a quarantine: as many as a key takes, so that who leaves it has
answered a control for every ballot that counts again. A phone that was disturbed is back within
minutes; who makes times up passes three controls in a row as seldom as docs/trust.md says."""


def recheck_probability(valid_in_row: int) -> float:
    """Share of an identity's leases that carry a hidden control."""
    return 1.0 if valid_in_row < PROVEN else 1 / valid_in_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An identity's whole leases that were valid since one failed, and whether any ever did."""

    valid_in_row: int
    failed: bool

    @property
    def quarantined(self) -> bool:
        return self.failed and self.valid_in_row < RELEASING
