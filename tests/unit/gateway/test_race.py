"""A crowd knows its winner soon, counted in measurements that one agent makes in a row."""

from dataclasses import dataclass, field
from random import Random

import pytest

from fixtures.sharing import floor
from kernelzoo.domain.lease import cover
from kernelzoo.store.prospects import ProspectRow
from services.gateway.lending import LendingTerms, plan

SPACE = 36
QUORUM = 5


@dataclass(slots=True)
class Crowd:
    """All measure at the same speed; leases and votes take no time. A kernel's time is its place;
    chance decides when it is lent."""

    agents: int
    malicious_share: float
    order: list[int] = field(default_factory=lambda: Random(1).sample(range(SPACE), SPACE))
    measured: dict[int, set[int]] = field(default_factory=dict)
    held: dict[int, list[int]] = field(default_factory=dict)

    @property
    def quorum(self) -> int:
        return min(self.agents, QUORUM)

    def won(self) -> bool:
        """All of the space is measured, and the best by a quorum."""
        covered = min(cover(self.malicious_share), self.agents)
        by = [self.measured.get(place, set()) for place in range(SPACE)]
        return all(len(each) >= covered for each in by) and len(by[0]) >= self.quorum

    def rounds(self) -> int:
        """Measurements in a row until it has won."""
        for number in range(10 * SPACE):
            if self.won():
                return number
            for agent in range(self.agents):
                if not self.held.get(agent):
                    self.held[agent] = self.lent(agent)
            for agent, held in self.held.items():
                if held:
                    self.measured.setdefault(held.pop(0), set()).add(agent)
        raise AssertionError("it never knew")

    def lent(self, agent: int) -> list[int]:
        terms = LendingTerms(
            reference_id="default",
            limit=8,
            cover=cover(self.malicious_share),
            quorum=self.quorum,
            sharers=self.agents,
            recheck=0.0,
            closed=False,
        )
        space = [self.prospect(agent, place) for place in self.order]
        found = plan(space, terms, Random(1))
        return [int(name) for name, _ in found.items] if found else []

    def prospect(self, agent: int, place: int) -> ProspectRow:
        by = self.measured.get(place, set())
        holders = {one for one, held in self.held.items() if place in held}
        return ProspectRow(
            candidate_id=str(place),
            compiled=True,
            mine=agent in by,
            again=False,
            held=agent in holders,
            answered=len(by - {agent}),
            lent=len(holders - {agent}),
            known_by=len(by - {agent}),
            relative_time=0.5 + place / 100 if by else None,
            fastest=0.5 + place / 100 if by else None,
            relative_preparation=None,
            champion=False,
            contender=False,
            similar=None,
        )


@pytest.mark.parametrize(
    ("agents", "malicious_share", "rounds"),
    [(1, 0.0, 36), (2, 0.0, 20), (5, 0.0, 9), (20, 0.0, 3), (5, 0.2, 16), (20, 0.2, 4)],
)
def test_the_time_to_a_winner_falls_nearly_as_the_number_of_agents_grows(
    agents: int, malicious_share: float, rounds: int
) -> None:
    crowd = Crowd(agents, malicious_share)
    least = floor(SPACE, cover(malicious_share), agents, crowd.quorum)
    assert crowd.rounds() == rounds
    assert least <= rounds <= least + 1
