"""Live entries that are denied, and what is served in their place."""

from dataclasses import dataclass

from kernelzoo.domain.zoo import Evidence
from kernelzoo.store.query import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class DeniedEntry:
    """A live entry that its class must not run any more."""

    version: int
    state: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierEntry:
    candidate_id: str
    ballots: int
    weight: int
    total_weight: int
    relative_time: float

    @property
    def evidence(self) -> Evidence:
        return Evidence(
            ballots=self.ballots,
            weight=self.weight,
            total_weight=self.total_weight,
            relative_time=self.relative_time,
        )


NO_EVIDENCE = Evidence(ballots=0, weight=0, total_weight=0, relative_time=1.0)
"""Of the default kernel, which nobody needs to vote for."""


def denied_entry(workload_key: str, device_class: str) -> Query[DeniedEntry]:
    """The live entry of a key, if it is denied."""
    return Query(
        sql="""
            SELECT e.version, e.state, concat_ws(': ', nullif(d.stage, ''), d.evidence) AS reason
            FROM zoo_entry e
            JOIN candidate c ON c.candidate_id = e.candidate_id
            JOIN denied d ON d.artifact_sha256 = c.artifact_sha256
                AND d.device_class = e.device_class AND d.denied
            WHERE e.workload_key = %(key)s AND e.device_class = %(class)s
              AND e.state <> 'retired'
        """,
        parameters={"key": workload_key, "class": device_class},
        row=DeniedEntry,
    )


def earlier(workload_key: str, device_class: str) -> Query[EarlierEntry]:
    """The latest version of a key that pages were served and that is not denied."""
    return Query(
        sql="""
            SELECT candidate_id, ballots, weight, total_weight, relative_time FROM zoo_entry
            WHERE workload_key = %(key)s AND device_class = %(class)s AND served
              AND NOT is_denied(candidate_id, device_class)
            ORDER BY version DESC LIMIT 1
        """,
        parameters={"key": workload_key, "class": device_class},
        row=EarlierEntry,
    )
