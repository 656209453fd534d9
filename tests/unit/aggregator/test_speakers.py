"""Classes speak for others if their voters are their own and vouched for."""

import pytest

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.trust import ALL_DEFENCES, Defence
from services.aggregator.speakers import Speaker, Voter, speakers

QUORUM = 3


def wasm(number: int) -> str:
    return f"{number:016x}:r1-0:wasm"


def voter(device_class: str, network: str, *, attested: bool = True) -> Voter:
    identity = f"{network or 'operator'} on {device_class}"
    return Voter(
        device_class=DeviceClass.parse(device_class),
        identity=identity,
        network=network,
        attested=attested,
    )


def heard(*voters: Voter) -> dict[str, Speaker]:
    return {str(name): each for name, each in speakers(voters, QUORUM, ALL_DEFENCES).items()}


def test_a_network_speaks_in_the_class_that_it_measured_first() -> None:
    """Three networks that visit eight classes are a quorum of one."""
    voters = [voter(wasm(number), network) for number in range(8) for network in "abc"]
    assert list(heard(*voters)) == [wasm(0)]
    assert heard(*voters)[wasm(0)].voices == 3


def test_several_identities_of_a_network_are_one_voice() -> None:
    assert heard(*(voter(wasm(0), network) for network in "aaabbb")) == {}


def test_a_visitor_speaks_once_for_wasm_and_once_for_webgpu() -> None:
    gpu = f"{0:016x}:r101-0:webgpu"
    assert set(heard(*(voter(each, n) for each in (wasm(0), gpu) for n in "abc"))) == {wasm(0), gpu}


@pytest.mark.parametrize(("attested", "speaks"), [(0, False), (1, False), (2, True), (3, True)])
def test_most_of_a_quorum_must_be_attested(attested: int, *, speaks: bool) -> None:
    voters = [voter(wasm(0), n, attested=place < attested) for place, n in enumerate("abcde")]
    assert (wasm(0) in heard(*voters)) is speaks


def test_one_agent_of_the_operators_vouches_for_the_class_that_it_measured() -> None:
    strangers = [voter(wasm(0), n, attested=False) for n in "ab"]
    found = heard(*strangers, voter(wasm(0), ""))
    assert found[wasm(0)].voices == 3
    assert not found[wasm(0)].alone(10), "most of its voters are strangers"
    assert heard(*strangers, *(voter(wasm(0), "") for _ in range(3)))[wasm(0)].alone(10)


def test_without_the_defence_every_class_speaks_as_loudly_as_the_next() -> None:
    voters = [voter(wasm(number), n, attested=False) for number in range(8) for n in "aab"]
    found = speakers(voters, QUORUM, ALL_DEFENCES - {Defence.SPEAKERS})
    assert {each.voices for each in found.values()} == {1}
    assert len(found) == 8
