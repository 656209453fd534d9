"""Kernel Launcher's wisdom, line by line as its reader takes it (wisdom.cpp, version 1.0)."""

import json
import re
from dataclasses import replace

import pytest

from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from kernelzoo.formats.results import ClassResults
from kernelzoo.formats.wisdom import read_wisdom, wisdom
from tests.unit.formats.examples import CLASS, K0, results

OTHER = Workload.of("matmul", (128, 768, 768))
BATCHED = Workload.of("batch_matmul", (12, 64, 64, 64))


def best(text: str, key: str, device: str, size: tuple[int, ...]) -> dict[str, object]:
    """Picks what the application would be given: the device first, then the nearest size, then
    time."""
    header, *lines = (json.loads(line) for line in text.splitlines())
    assert (header["version"], header["key"]) == ("1.0", key)

    def distance(line: dict[str, list[int]]) -> int:
        ours, theirs = 1, 1
        for mine, other in zip(size, line["problem_size"], strict=True):
            ours, theirs = ours * mine, theirs * other
        return abs(ours - theirs)

    ranked = sorted(
        lines,
        key=lambda line: (
            line["environment"]["device_name"] != device,
            distance(line),
            line[header["objective"]],
        ),
    )
    return dict(zip(header["tunable_parameters"], ranked[0]["config"], strict=True))


def test_an_application_gets_the_winner_of_its_device_and_the_nearest_size() -> None:
    (file,) = wisdom((results(), results(OTHER)))
    key = json.loads(file.text.splitlines()[0])["key"]
    assert key.startswith("matmul:f32:block_m-block_n")
    assert best(file.text, key, CLASS, K0.extents) == dict(results().trials[1].config)
    near = best(file.text, key, CLASS, (100, 768, 768))
    assert near == dict(results(OTHER).trials[1].config)


PROGRAM = Workload.of_program("twice", parsed("a: f32[9]\nc[i: 9] = a[i] + a[i]"))
CONSTANT = Workload.parse("matmul:f32:m1k768n768:constant=b")


@pytest.mark.parametrize("workload", [PROGRAM, CONSTANT], ids=["program", "constant"])
def test_what_is_more_than_an_operator_and_a_size_has_its_whole_key_in_the_file(
    workload: Workload,
) -> None:
    (file,) = wisdom((results(workload),))
    assert {claim.workload_key for claim in read_wisdom(file.text)} == {workload.key}


def test_files_are_named_as_kernel_launcher_looks_for_them() -> None:
    (file,) = wisdom((results(),))
    assert file.name.startswith("matmul_f32_block_m-block_n-family-fma-")
    assert file.name.endswith(".wisdom")


def test_an_operator_of_more_than_three_axes_has_its_shape_in_the_key() -> None:
    (file,) = wisdom((results(BATCHED),))
    header, first, *_ = (json.loads(line) for line in file.text.splitlines())
    assert header["key"].startswith(BATCHED.key)
    assert first["problem_size"] == []


def test_configs_of_other_settings_are_in_a_file_of_their_own() -> None:
    stream = Workload.of("matmul", (1, 768, 3072))
    mixed = results(stream)
    other = replace(mixed.trials[0], config=(("rows", 8), ("vectors", 4)))
    files = wisdom(
        (ClassResults(workload=stream, device_class=CLASS, trials=(*mixed.trials, other)),)
    )
    assert len({file.name for file in files}) == len(files) == 2


@pytest.mark.parametrize("workload", [K0, BATCHED])
def test_what_we_write_we_read_without_being_told(workload: Workload) -> None:
    (file,) = wisdom((results(workload),))
    claims = read_wisdom(file.text)
    assert {claim.workload_key for claim in claims} == {workload.key}
    assert {claim.device for claim in claims} == {CLASS}
    assert min(claims, key=lambda claim: claim.time).config == results(workload).trials[1].config


def test_wisdom_of_others_is_read_and_names_no_workload() -> None:
    header = {
        "version": "1.0",
        "key": "vector_add",
        "objective": "time",
        "tunable_parameters": ["block_size"],
    }
    line = {"config": [128], "problem_size": [1000], "environment": {}, "time": 3.5}
    (claim,) = read_wisdom("\n".join(json.dumps(each) for each in (header, line)))
    assert (claim.workload_key, claim.config, claim.time) == ("", (("block_size", 128),), 3.5)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"version": "2.0"}, "of version '2.0'"),
        (
            {"version": "1.0", "tunable_parameters": [], "objective": "GFLOP/s"},
            "the objective is 'GFLOP/s'; export the times instead",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(header: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(words)):
        read_wisdom(json.dumps(header))
