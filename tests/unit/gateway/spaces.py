"""Spaces as the plan of a lease sees them, and what it is asked for."""

from dataclasses import replace
from random import Random

from kernelzoo.domain.lease import LentRole
from kernelzoo.store.prospects import ProspectRow
from services.gateway.lending import LeasePlan, LendingTerms, plan

ALONE = LendingTerms(
    reference_id="default",
    limit=8,
    cover=1,
    quorum=1,
    sharers=1,
    recheck=0,
    closed=False,
)
STRANGERS = replace(ALONE, cover=2)
FIVE = replace(ALONE, quorum=5, sharers=5)


def new(place: int) -> ProspectRow:
    return ProspectRow(
        candidate_id=f"k{place:02}",
        compiled=True,
        mine=False,
        again=False,
        held=False,
        answered=0,
        lent=0,
        known_by=0,
        relative_time=None,
        fastest=None,
        relative_preparation=None,
        champion=False,
        contender=False,
        similar=None,
    )


def measured(place: int, by: int = 1, *, mine: bool = False) -> ProspectRow:
    """By others of the class; later ones are faster."""
    time = 1 - place / 100
    return replace(
        new(place), answered=by, known_by=by, mine=mine, relative_time=time, fastest=time
    )


SPACE = [new(place) for place in range(20)]
COVERED = [measured(place) for place in range(20)]


def planned(space: list[ProspectRow], terms: LendingTerms) -> LeasePlan:
    found = plan(space, terms, Random(1))
    assert found is not None
    return found


def names(found: LeasePlan, role: LentRole) -> list[str]:
    return [name for name, given in found.items if given is role]
