"""Plans what the next lease of an agent holds: a value, made of what is known of a job's space.

Agents of one device class divide the space: each is lent what too few others have measured or are
measuring. What is fast is then measured by more, the faster by the more, until as many have
measured the first two as confirm a winner; and so is what a page that runs it few times waits less
for than for the fastest. docs/adr/0025, 0040 and 0072 have the reasons.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from random import Random

from kernelzoo.domain.few_runs import CLOSE, RUNS, SAVING
from kernelzoo.domain.lease import FINALISTS, LEADERS, LentRole, voters
from kernelzoo.store.prospects import ProspectRow

KNOWN_BY = 3
"""Networks whose verified times make a kernel a control: one attacker does not move their
median."""

RECONSIDERED = 0.75
"""Share of the controls that are drawn from what others called slow, the least measured first. With
one half, attackers of two networks who came first and called all good kernels slow were found out
by eight honest devices in fewer cases."""

DISPUTED = 2
"""Kernels that one network puts among the leaders and the others far behind, that a stranger
measures with its last lease beside the leaders. One is resolved by two more honest networks."""

EXPLOITED = 0.1
"""Share of a lease for winners of similar devices (nnJIT, section 5.3)."""

FEWEST = 2
"""Candidates that a lease explores, at least: to set one up takes about as long as one more."""

COMPARED = LEADERS // 2
"""Kernels that an agent is told to compare in its last rounds; it chooses as many itself."""

NEAR = 0.1
"""A kernel may be so much slower than the first, as a share, to be measured by more. Noise is 2 %,
and 3 of 100 are disturbed, mostly by more than this (cli/simulate/conduct.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LendingTerms:
    """`reference_id`: the kernel that every candidate is measured beside. `limit`: candidates of a
    lease, at most. `cover`: networks that are to measure each. `quorum`: those that confirm a
    winner. `sharers`: those that are there to do so. `recheck`: how probable a control is.
    `closed`: this identity has done its share of the job.
    """

    reference_id: str
    limit: int
    cover: int
    quorum: int
    sharers: int
    recheck: float
    closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasePlan:
    """`items`: what is lent, in this order. `unmeasured`: what is left then, compiled or not, to
    this agent or to whoever asks first. `complete`: with these its share is done, and then it
    compares the `finalists`, which it has measured or is lent here, and its own fastest.
    """

    items: tuple[tuple[str, LentRole], ...]
    unmeasured: int
    complete: bool
    finalists: tuple[str, ...] = ()


Item = tuple[ProspectRow, LentRole]


def plan(prospects: Sequence[ProspectRow], terms: LendingTerms, chance: Random) -> LeasePlan | None:
    """`prospects` in the order in which they are to be measured. None: there is nothing to do now,
    and there may be when others have answered.
    """
    share = [] if terms.closed else _explored(prospects, terms) or _raced(prospects, terms)
    share = share or _contested(prospects, terms)
    waiting = [] if terms.closed else _unsettled(prospects, share, terms)
    if not share and waiting:
        share = _helped(waiting)
    done = terms.closed or (not waiting and _has_all(prospects, share))
    wanted = share or (_to_close(prospects, terms) if done else [])
    if not wanted and (waiting or terms.closed):
        return None
    control = _control(prospects, terms, chance) if wanted else None
    lent = _with_control(wanted, control, terms.limit, chance)
    left = [p for p, _ in wanted if p.candidate_id not in {lent_id for lent_id, _ in lent}]
    complete = done and not left
    return LeasePlan(
        items=lent,
        unmeasured=len(left) + sum(p.answered + p.lent < terms.cover for p in waiting),
        complete=complete,
        finalists=_finalists(prospects, lent) if complete else (),
    )


def _free(prospects: Sequence[ProspectRow]) -> list[ProspectRow]:
    """Keeps what this identity can be lent and has not reported."""
    return [p for p in prospects if p.compiled and not (p.mine or p.held)]


def _explored(prospects: Sequence[ProspectRow], terms: LendingTerms) -> list[Item]:
    """Picks what a newer browser measures again, and half of an equal share of what is left: more
    agents may come, and some are slower. Winners of similar devices come first, then what the
    fewest have.
    """
    free = _free(prospects)
    again = [p for p in free if p.again]
    found = [p for p in free if not p.again and p.answered + p.lent < terms.cover]
    slots = sum(terms.cover - p.answered - p.lent for p in found)
    parts = 2 * terms.sharers if terms.sharers > 1 else 1
    size = min(max(FEWEST, ceil(slots / parts)), terms.limit)
    similar = sorted((p for p in found if p.similar is not None), key=lambda p: p.similar or 0)
    first = similar[: ceil(EXPLOITED * terms.limit)]
    others = (p for p in found if p.candidate_id not in {one.candidate_id for one in first})
    rest = sorted(others, key=lambda p: p.answered + p.lent)
    share = [*((p, LentRole.VALIDATE) for p in first), *((p, LentRole.EXPLORE) for p in rest)]
    return [*((p, LentRole.EXPLORE) for p in again), *share[:size]]


def _raced(prospects: Sequence[ProspectRow], terms: LendingTerms) -> list[Item]:
    """An equal share of the measurements that leaders still lack, of the fastest first, and then
    of those that what is best for few runs does.
    """
    leaders = [(p, LentRole.LEADER, lack) for p, lack in _leaders(prospects, terms)]
    cheap = [(p, LentRole.FEW_RUNS, lack) for p, lack in _for_few_runs(prospects, terms)]
    lacking = [each for each in (*leaders, *cheap) if each[2] > 0]
    slots = sum(lack for _, _, lack in lacking)
    free = _once([(p, role) for p, role, _ in lacking if _free([p])])
    return free[: min(ceil(slots / terms.sharers), terms.limit)]


def _contested(prospects: Sequence[ProspectRow], terms: LendingTerms) -> list[Item]:
    """Picks what contends with what is served, until a quorum has reported it, and what is served
    beside it; also for an agent that has done its share, since what contends may show in the last
    ballots alone.
    """
    free = _free(prospects)
    lacking = [p for p in free if p.contender and p.answered + p.lent < terms.quorum]
    champion = [p for p in free if p.champion and p.candidate_id != terms.reference_id]
    pair = (*((p, LentRole.LEADER) for p in lacking), *((p, LentRole.CHAMPION) for p in champion))
    return _once(pair)[: terms.limit] if lacking else []


def _leaders(
    prospects: Sequence[ProspectRow], terms: LendingTerms
) -> list[tuple[ProspectRow, int]]:
    """Ranks the candidates near the first that more agents than the cover should measure, the
    fastest first, each with how many more should be lent it.
    """
    ranked = _ranked(prospects)
    lacking = [
        (p, voters(rank, terms.quorum) - p.answered - p.lent - p.mine - p.held)
        for rank, p in enumerate(ranked, 1)
        if voters(rank, terms.quorum) > terms.cover
    ]
    return [(p, lack) for p, lack in lacking if _time(p) <= (1 + NEAR) * _time(ranked[0])]


def _for_few_runs(
    prospects: Sequence[ProspectRow], terms: LendingTerms
) -> list[tuple[ProspectRow, int]]:
    """For each number of runs that the zoo offers for, the kernel that costs least together with
    what precedes its runs, where that saves enough over the fastest; how many more should be lent
    it. As many as confirm a winner have to have measured what is offered.
    """
    told = [p for p in _ranked(prospects) if p.relative_preparation is not None]
    if not told or told[0] != _ranked(prospects)[0]:
        return []
    fastest = told[0]
    close = [p for p in told if _time(p) <= CLOSE * _time(fastest)]
    least = [min(close, key=lambda p: _total(p, runs)) for runs in RUNS]
    saving = {
        p.candidate_id: p
        for p, runs in zip(least, RUNS, strict=True)
        if _total(p, runs) < (1 - SAVING) * _total(fastest, runs)
    }
    return [(p, terms.quorum - p.answered - p.lent - p.mine - p.held) for p in saving.values()]


def _total(prospect: ProspectRow, runs: int) -> float:
    return (prospect.relative_preparation or 0.0) + runs * _time(prospect)


def _ranked(prospects: Sequence[ProspectRow]) -> list[ProspectRow]:
    return sorted((p for p in prospects if p.relative_time is not None), key=_time)


def _time(prospect: ProspectRow) -> float:
    return prospect.relative_time or 0.0


def _unsettled(
    prospects: Sequence[ProspectRow], share: list[Item], terms: LendingTerms
) -> list[ProspectRow]:
    """Lists what others are to report, or this identity after `share`, before the winner is
    known."""
    lent = {p.candidate_id for p, _ in share}
    leaders = {p.candidate_id for p, lack in _leaders(prospects, terms) if p.lent + lack > 0}
    return [
        p
        for p in prospects
        if p.candidate_id not in lent
        and ((not p.mine and p.answered < terms.cover) or (p.lent and p.candidate_id in leaders))
    ]


def _has_all(prospects: Sequence[ProspectRow], share: list[Item]) -> bool:
    """Returns whether nothing is left that this identity could be lent when others learn of
    `share`."""
    lent = {p.candidate_id for p, _ in share}
    return not share or all(p.mine or p.candidate_id in lent for p in prospects)


def _helped(waiting: list[ProspectRow]) -> list[Item]:
    """Picks for an agent with nothing else to do what another was lent last and nobody has
    reported."""
    held = [p for p in _free(waiting) if p.lent == 1 and not p.answered]
    return [(p, LentRole.EXPLORE) for p in held[-1:]]


def _to_close(prospects: Sequence[ProspectRow], terms: LendingTerms) -> list[Item]:
    """The champion; of whom has a share to do the leaders too, what is disputed, and one that does
    not lead, the least measured: of one's own agents from those that have explored none.
    """
    champion = [
        (p, LentRole.CHAMPION)
        for p in _free(prospects)
        if p.champion and p.candidate_id != terms.reference_id
    ]
    if terms.closed:
        return champion
    leaders = _ranked(prospects)[: LEADERS if terms.cover > 1 else FINALISTS]
    raced = [p for p, _ in _leaders(prospects, terms)]
    disputed = _free(_disputed(prospects, terms))[:DISPUTED]
    leading = {p.candidate_id for p in (*leaders, *raced, *disputed)}
    others = [p for p in prospects if p.candidate_id not in leading]
    explored = terms.cover == 1 and any(p.mine for p in others)
    free = [] if explored else _free(others)
    least = sorted(free, key=lambda p: p.answered + p.lent)[:1]
    return _once(
        (
            *champion,
            *((p, LentRole.LEADER) for p in _free(leaders)),
            *((p, LentRole.EXPLORE) for p in (*disputed, *least)),
        )
    )


def _finalists(
    prospects: Sequence[ProspectRow], lent: Sequence[tuple[str, LentRole]]
) -> tuple[str, ...]:
    """Names what is served, what contends with it, and what leads the class, so that those who
    compare their best all compare these. The others are of the agent's own choice: a class may be
    told that a good kernel is slow.
    """
    lent_ids = {name for name, _ in lent}
    known = [p for p in prospects if p.mine or p.candidate_id in lent_ids]
    asked = [p for p in known if p.champion or p.contender]
    return tuple(dict.fromkeys(p.candidate_id for p in (*asked, *_ranked(known))))[:COMPARED]


def _once(items: Sequence[Item]) -> list[Item]:
    """Each candidate in the first of its roles."""
    first = {p.candidate_id: (p, role) for p, role in reversed(items)}
    return [first[name] for name in dict.fromkeys(p.candidate_id for p, _ in items)]


def _control(
    prospects: Sequence[ProspectRow], terms: LendingTerms, chance: Random
) -> ProspectRow | None:
    """Any whose time others know; one that this identity has measured only where no other is. Or
    one that others called slow: where these are too few to judge it by, it counts like any other.

    None for who asks for one candidate at a time: it would be lent nothing else.
    """
    if terms.limit == 1 or chance.random() >= terms.recheck:
        return None
    known = [p for p in prospects if p.compiled and not p.held and p.known_by >= KNOWN_BY]
    slow = _free(_disputed(prospects, terms))[:1] or _called_slow(prospects, terms)
    if slow and (not known or chance.random() < RECONSIDERED):
        return chance.choice(slow)
    unmeasured = [p for p in known if not p.mine]
    return chance.choice(unmeasured or known) if known else None


def _disputed(prospects: Sequence[ProspectRow], terms: LendingTerms) -> list[ProspectRow]:
    """Finds what one network puts among the leaders, and so many others far behind that it does
    not lead: the fastest first, until twice as many as confirm a winner have measured it. Where
    attackers came first and called good kernels slow, one honest voter finds each of them, and of
    those that all have measured equally often none would be measured by enough.
    """
    ranked = _ranked(prospects)
    if terms.cover == 1 or len(ranked) <= LEADERS:
        return []
    told = [
        (p.fastest, p)
        for p in ranked[LEADERS:]
        if p.fastest is not None and p.known_by < 2 * terms.quorum
    ]
    disputed = [
        (fastest, p)
        for fastest, p in told
        if fastest < _time(ranked[LEADERS - 1]) and fastest * (1 + NEAR) < _time(p)
    ]
    return [p for _, p in sorted(disputed, key=lambda each: each[0])]


def _called_slow(prospects: Sequence[ProspectRow], terms: LendingTerms) -> list[ProspectRow]:
    """Finds what enough have measured, this identity has not, and does not lead: those that the
    fewest have measured.
    """
    leaders = {p.candidate_id for p in _ranked(prospects)[:LEADERS]}
    told = [p for p in _free(prospects) if p.known_by >= terms.cover]
    slow = [p for p in told if p.candidate_id not in leaders]
    fewest = min((p.known_by for p in slow), default=0)
    return [p for p in slow if p.known_by == fewest]


def _with_control(
    wanted: list[Item], control: ProspectRow | None, limit: int, chance: Random
) -> tuple[tuple[str, LentRole], ...]:
    """At most `limit`. The control is at any place, whatever else it would have been lent for."""
    if control is None:
        return tuple((p.candidate_id, role) for p, role in wanted[:limit])
    lent = [(p.candidate_id, role) for p, role in wanted if p != control][: limit - 1]
    lent.insert(chance.randrange(len(lent) + 1), (control.candidate_id, LentRole.CONTROL))
    return tuple(lent)
