"""One's own agents go on until what is served is within the noise of the best measured."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import exp
from random import Random
from statistics import fmean, median

import pytest

from cli.simulate.conduct import DISTURBED, FINAL_NOISE, LONGER, NOISE, fastest
from cli.simulate.world import World
from kernelzoo.domain.ballot import Ballot, BallotLine, CastBallot
from kernelzoo.domain.lease import LEADERS
from kernelzoo.store.prospects import ProspectRow
from services.aggregator.publishing import Champion, Keep, Publish, Rule, decide
from services.gateway.lending import LeasePlan, LendingTerms, plan

SPACE = 54
DEFAULT = "k00"


@dataclass(slots=True)
class Agent:
    """`left` of its lease is to be measured; `known` is what it ranks its kernels by."""

    number: int
    free_at: float
    pace: float
    lease: LeasePlan | None = None
    left: list[str] = field(default_factory=list)
    known: dict[str, float] = field(default_factory=dict)
    closed: bool = False


@dataclass
class Stack:
    """Agents of one device on paper share a space by the gateway's plans. 3 of 100 measurements are
    disturbed, and of as many the reference beside them, which makes a kernel look fast. Each votes
    after a lease, and with more rounds of its fastest after the last.
    """

    seed: int
    agents: int
    quorum: int
    measured: dict[str, dict[int, float]] = field(default_factory=dict)
    ballots: dict[int, tuple[BallotLine, ...]] = field(default_factory=dict)
    live: Champion | None = None
    contenders: tuple[str, ...] = ()
    final: bool = False

    @cached_property
    def true(self) -> Mapping[str, float]:
        world = World(seed=self.seed, flops=1_000_000)
        calls = {f"k{n:02}": world.call_ns("device", f"k{n:02}") for n in range(SPACE)}
        return {name: call / calls[DEFAULT] for name, call in calls.items()}

    @property
    def regret(self) -> float:
        """How much slower what is served is, against the best of the space that any agent measured
        right."""
        assert self.live is not None
        return self.true[self.live.candidate_id] / min(map(self.found, self.true)) - 1

    def found(self, name: str) -> float:
        return max(self.true[name], median(self.measured[name].values()))

    def run(self) -> None:
        """Until nobody is lent anything."""
        chance = Random(self.seed)
        crew = [Agent(n, chance.random(), 1 + chance.random()) for n in range(self.agents)]
        waited = 0
        while waited < 3 * self.agents:
            agent = min(crew, key=lambda each: each.free_at)
            if agent.lease is not None:
                self.work(agent, chance)
                continue
            agent.lease = plan(tuple(self.prospects(agent, crew)), self.terms(agent), chance)
            agent.left = [name for name, _ in agent.lease.items] if agent.lease else []
            waited = 0 if agent.lease else waited + 1
            agent.free_at += 0 if agent.lease else 1

    def work(self, agent: Agent, chance: Random) -> None:
        if agent.left:
            name = agent.left.pop(0)
            time = self.true[name] * timed(chance) / timed(chance)
            self.measured.setdefault(name, {})[agent.number] = agent.known[name] = time
            agent.free_at += agent.pace
            return
        assert agent.lease is not None
        self.vote(agent, agent.known)
        if agent.lease.complete:
            careful = (abs(chance.gauss(0, FINAL_NOISE)) for _ in range(LEADERS))
            again = fastest(agent.known, LEADERS)
            self.vote(
                agent, {n: self.true[n] * exp(e) for (n, _), e in zip(again, careful, strict=False)}
            )
            agent.closed = True
        agent.lease = None

    def vote(self, agent: Agent, known: Mapping[str, float]) -> None:
        self.ballots[agent.number] = lines(dict(fastest(known)))
        decision = decide(
            tuple(self.cast()),
            self.live,
            default_id=DEFAULT,
            rule=Rule(quorum=self.quorum, malicious_share=0),
            reported={name: len(self.measured.get(name, ())) for name in self.true},
        )
        if isinstance(decision, Publish):
            self.live = Champion(candidate_id=decision.candidate_id, state=decision.state)
        if isinstance(decision, Publish | Keep):
            self.contenders = decision.evidence.contenders
            self.final = decision.evidence.final

    def cast(self) -> Iterator[CastBallot]:
        for number in sorted(self.ballots):
            own = {name: by[number] for name, by in self.measured.items() if number in by}
            told = Ballot(identity=str(number), lines=self.ballots[number])
            yield CastBallot(network="", ballot=told, measured=lines(own))

    def terms(self, agent: Agent) -> LendingTerms:
        return LendingTerms(
            reference_id=DEFAULT,
            limit=8,
            cover=1,
            quorum=self.quorum,
            sharers=self.agents,
            recheck=0,
            closed=agent.closed,
        )

    def prospects(self, agent: Agent, crew: list[Agent]) -> Iterator[ProspectRow]:
        for name in self.true:
            by = self.measured.get(name, {})
            times = sorted(by.values())
            holders = {each.number for each in crew if name in each.left}
            yield ProspectRow(
                candidate_id=name,
                compiled=True,
                mine=agent.number in by,
                again=False,
                held=agent.number in holders,
                answered=len(by.keys() - {agent.number}),
                lent=len(holders - {agent.number}),
                known_by=0,
                relative_time=times[(len(times) - 1) // 2] if times else None,
                relative_preparation=None,
                champion=self.live is not None and self.live.candidate_id == name,
                contender=name in self.contenders,
                similar=None,
            )


def timed(chance: Random) -> float:
    """The best of three rounds, over the true time."""
    disturbed = 1 + chance.expovariate(1 / LONGER) if chance.random() < DISTURBED else 1
    return disturbed * min(exp(abs(chance.gauss(0, NOISE))) for _ in range(3))


def lines(times: Mapping[str, float]) -> tuple[BallotLine, ...]:
    return tuple(BallotLine(candidate_id=c, relative_time=t) for c, t in times.items())


@pytest.mark.parametrize(("agents", "quorum"), [(5, 5), (2, 2), (1, 1), (12, 5)])
def test_what_is_served_in_the_end_is_within_the_noise_of_the_best(
    agents: int, quorum: int
) -> None:
    """Before, 7 of 40 such stacks of two agents and 27 of 40 of one ended more than 3 % behind, by
    45 % and 43 % at most, and of five agents one in 600, which is seed 393 (11 %).
    """
    stacks = [Stack(seed, agents, quorum) for seed in (*range(20), 393)]
    for stack in stacks:
        stack.run()
        assert stack.final, f"seed {stack.seed}: {stack.contenders} were left"
    assert max(stack.regret for stack in stacks) <= 0.03
    assert fmean(stack.regret for stack in stacks) <= 0.005


def test_it_takes_few_measurements_more_than_the_space_has_kernels() -> None:
    stack = Stack(seed=1, agents=5, quorum=5)
    stack.run()
    assert sum(map(len, stack.measured.values())) < 1.7 * SPACE
