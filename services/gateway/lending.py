"""What the next lease of an agent holds: a value, made of what is known of a job's space.

Agents of one device class divide the space: each is lent what too few others have measured or are
measuring. Once all is measured, each measures the leaders that it has not, so that preferences
between them are paired, and files its final ballot. docs/adr/0025 has the reasons.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from random import Random

from kernelzoo.domain.lease import LEADERS, Role
from kernelzoo.store.prospects import ProspectRow

KNOWN_BY = 3
"""Others whose verified times make a kernel a control: one liar does not move their median."""

EXPLOITED = 0.1
"""Share of a lease for winners of similar devices (nnJIT, section 5.3)."""

FEWEST = 2
"""Candidates that a lease explores, at least: to set one up takes about as long as one more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """`limit`: candidates of a lease, at most. `cover`: identities that are to measure each.
    `sharers`: those that are there to do so. `recheck`: how probable a control is. `closed`: this
    identity has done its share of the job.
    """

    limit: int
    cover: int
    sharers: int
    recheck: float
    closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`items`: what is lent, in this order. `unmeasured`: what is left then, compiled or not, to
    this agent or to whoever asks first. `closing`: with these its share is done.
    """

    items: tuple[tuple[str, Role], ...]
    unmeasured: int
    closing: bool


Item = tuple[ProspectRow, Role]


def plan(prospects: Sequence[ProspectRow], terms: Terms, chance: Random) -> Plan | None:
    """`prospects` in the order in which they are to be measured. None: there is nothing to do now,
    and there may be when others have answered.
    """
    again = [p for p in _free(prospects) if p.again]
    exploring = [] if terms.closed else _to_explore(prospects, terms.cover)
    share = _share(exploring, terms)
    waiting = _unsettled(prospects, [*again, *share], terms)
    wanted = _once(
        (
            *((p, Role.CHAMPION) for p in _free(prospects) if p.champion and _stands(p, waiting)),
            *((p, Role.EXPLORE) for p in again),
            *_explored(share, terms.limit),
            *(() if waiting or terms.closed else _to_close(prospects, share)),
        )
    )
    if not wanted and (waiting or terms.closed):
        return None
    control = _control(prospects, terms, chance) if wanted else None
    lent = _with_control(wanted, control, terms.limit, chance)
    left = [p for p, _ in wanted if p.candidate_id not in {lent_id for lent_id, _ in lent}]
    return Plan(
        items=lent,
        unmeasured=len(left) + sum(p.answered + p.lent < terms.cover for p in waiting),
        closing=not (left or waiting),
    )


def _free(prospects: Sequence[ProspectRow]) -> list[ProspectRow]:
    """What this identity can be lent and has not reported."""
    return [p for p in prospects if p.compiled and not (p.mine or p.held)]


def _to_explore(prospects: Sequence[ProspectRow], cover: int) -> list[ProspectRow]:
    """Those that the fewest have measured or are measuring first."""
    found = [p for p in _free(prospects) if p.answered + p.lent < cover]
    return sorted(found, key=lambda p: p.answered + p.lent)


def _share(exploring: list[ProspectRow], terms: Terms) -> list[ProspectRow]:
    """Half of an equal share of what is left: more agents may come, and some are slower."""
    slots = sum(terms.cover - p.answered - p.lent for p in exploring)
    parts = 2 * terms.sharers if terms.sharers > 1 else 1
    size = max(FEWEST, ceil(slots / parts))
    similar = sorted((p for p in exploring if p.similar is not None), key=lambda p: p.similar or 0)
    first = similar[: ceil(EXPLOITED * terms.limit)]
    return [*first, *(p for p in exploring if p not in first)][: min(size, terms.limit)]


def _explored(share: list[ProspectRow], limit: int) -> list[Item]:
    """The share with its roles; winners of similar devices have come first."""
    exploited = ceil(EXPLOITED * limit)
    return [
        (p, Role.EXPLORE if p.similar is None or place >= exploited else Role.VALIDATE)
        for place, p in enumerate(share)
    ]


def _unsettled(
    prospects: Sequence[ProspectRow], share: list[ProspectRow], terms: Terms
) -> list[ProspectRow]:
    """What is to be measured before the leaders are known, by this identity or by others: all but
    `share`, which is lent now.
    """
    if terms.closed:
        return []
    return [p for p in prospects if not p.mine and p.answered < terms.cover and p not in share]


def _stands(champion: ProspectRow, waiting: list[ProspectRow]) -> bool:
    """While a space is explored the first champions follow one another as it goes."""
    return not waiting or champion.known_by >= KNOWN_BY


def _to_close(prospects: Sequence[ProspectRow], share: list[ProspectRow]) -> list[Item]:
    """The leaders, and one that does not lead of whom nothing else explores: the least measured."""
    timed = [p for p in prospects if p.relative_time is not None]
    leaders = sorted(timed, key=lambda p: p.relative_time or 0)[:LEADERS]
    others = [p for p in prospects if p not in leaders]
    free = sorted(_free(others), key=lambda p: p.answered + p.lent)
    explores = share or any(p.mine for p in others)
    return [
        *((p, Role.LEADER) for p in _free(leaders)),
        *((p, Role.EXPLORE) for p in ([] if explores else free[:1])),
    ]


def _once(items: Sequence[Item]) -> list[Item]:
    """Each candidate in the first of its roles."""
    first = {p.candidate_id: (p, role) for p, role in reversed(items)}
    return [first[name] for name in dict.fromkeys(p.candidate_id for p, _ in items)]


def _control(prospects: Sequence[ProspectRow], terms: Terms, chance: Random) -> ProspectRow | None:
    """Any whose time others know; one that this identity has measured only where no other is.

    None for who asks for one candidate at a time: it would be lent nothing else.
    """
    if terms.limit == 1 or chance.random() >= terms.recheck:
        return None
    known = [p for p in prospects if p.compiled and not p.held and p.known_by >= KNOWN_BY]
    unmeasured = [p for p in known if not p.mine]
    return chance.choice(unmeasured or known) if known else None


def _with_control(
    wanted: list[Item], control: ProspectRow | None, limit: int, chance: Random
) -> tuple[tuple[str, Role], ...]:
    """At most `limit`. The control is at any place, whatever else it would have been lent for."""
    if control is None:
        return tuple((p.candidate_id, role) for p, role in wanted[:limit])
    lent = [(p.candidate_id, role) for p, role in wanted if p != control][: limit - 1]
    lent.insert(chance.randrange(len(lent) + 1), (control.candidate_id, Role.CONTROL))
    return tuple(lent)
