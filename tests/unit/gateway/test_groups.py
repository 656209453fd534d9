"""Groups of networks are found by how many connections they have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.groups import Groups

GROUPS = "abcdef"
CHANGES = st.lists(st.tuples(st.booleans(), st.sampled_from(GROUPS), st.integers(0, 5)))


@given(CHANGES, st.integers(0, 6))
def test_those_with_most_members_come_first(
    changes: list[tuple[bool, str, int]], size: int
) -> None:
    groups: Groups[int] = Groups()
    expected: dict[str, list[int]] = {group: [] for group in GROUPS}
    for comes, group, member in changes:
        members = expected[group]
        if comes and member not in members:
            members.append(member)
            groups.add(group, member)
        elif not comes and member in members:
            members.remove(member)
            groups.remove(group, member)
    larger = [list(members) for members in groups.larger_than(size)]
    wanted = [members for members in expected.values() if len(members) > size]
    assert sorted(larger) == sorted(wanted), "with all of their members, the oldest first"
    assert [*map(len, larger)] == sorted(map(len, larger), reverse=True)
    assert [groups.size(group) for group in GROUPS] == [*map(len, expected.values())]


def test_who_is_not_there_cannot_leave() -> None:
    groups: Groups[int] = Groups()
    groups.add("a", 1)
    groups.remove("a", 1)
    with pytest.raises(KeyError):
        groups.remove("a", 1)
    assert list(groups.larger_than(0)) == []
