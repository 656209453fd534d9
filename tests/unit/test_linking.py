"""Kernels of one module compute what each computes by itself."""

import numpy as np
import pytest

from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from kernelzoo.linking import link
from services.tuner.compile import compile_candidate
from services.tuner.schedules.registry import lite_space
from tests.unit.tuner.execution import execute, inputs_of, module

KEYS = ("matmul:f32:m9k20n13", "softmax:f32:m4n33", "gelu:f32:n77", "matmul+bias:f32:m3k5n7")


@pytest.fixture(scope="module")
def artifacts() -> list[Artifact]:
    """Modules of KEYS, with scratch and without."""
    return [
        compile_candidate(candidate)
        for key in KEYS
        for candidate in lite_space(Workload.parse(key), TargetKind.WASM)[:3]
    ]


def names(body: bytes) -> list[str]:
    return [str(each.name) for each in module(body).exports]


def test_linked_kernels_compute_what_they_compute_alone(artifacts: list[Artifact]) -> None:
    linked = link([each.body for each in artifacts])
    assert names(linked) == [f"f{i}" for i in range(len(artifacts))]
    for number, artifact in enumerate(artifacts):
        tensors = artifact.manifest.tensors[:-1]
        inputs = [np.linspace(-1, 1, t.elements, dtype=np.float32) for t in tensors]
        alone = execute(artifact, inputs)
        together = execute(Artifact.of(linked, artifact.manifest), inputs, export=f"f{number}")
        assert np.array_equal(alone, together)


def test_equal_kernels_are_linked_once(artifacts: list[Artifact]) -> None:
    first, second = artifacts[0].body, artifacts[-1].body
    once, twice = link([first, second]), link([first, second, first, first])
    assert names(twice) == ["f0", "f1", "f2", "f3"]
    assert len(twice) - len(once) < 20, "two more names"


def test_the_bytes_depend_on_the_kernels_and_their_order_alone(artifacts: list[Artifact]) -> None:
    bodies = [each.body for each in artifacts]
    linked = link(bodies * 4)
    assert linked == link(list(bodies * 4))
    assert linked != link(list(reversed(bodies * 4)))
    assert names(link([])) == []


def test_a_short_module_is_padded_to_what_v8_caches(artifacts: list[Artifact]) -> None:
    """The second of two modules is long enough by itself."""
    shortest = min(artifacts, key=lambda each: len(each.body))
    short, long = link([shortest.body]), link([each.body for each in artifacts])
    assert len(shortest.body) < 1_000
    assert 1_024 <= len(short) < 1_050
    assert short == link([shortest.body])
    assert names(short) == ["f0"]
    assert b"padding" in short
    assert b"padding" not in long


def edited(body: bytes, old: bytes, new: bytes) -> bytes:
    assert old in body
    return body.replace(old, new, 1)


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda _: b"", "begin"),
        (lambda body: body[:-1], "middle of a section"),
        (lambda body: body + b"\0\3\2ab", "sections"),
        (lambda body: body + b"\xff\xff\xff\xff\xff\xff", "middle of a section"),
        (lambda body: edited(body, b"memory\2\3", b"memory\2\1"), "shared memory"),
        (lambda body: edited(body, b"\4main", b"\4evil"), "exports as main"),
        (lambda body: edited(body, b"\x7f\x7f\x7f", b"\x7f\x7f\x7d"), "addresses and a range"),
        (lambda body: body[:-1] + b"\0", "does not end where"),
    ],
)
def test_what_is_no_kernel_is_refused(artifacts: list[Artifact], edit: object, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        link([artifacts[0].body, edit(artifacts[0].body)])  # type: ignore[operator]


def test_the_inputs_of_a_workload_pass_through_a_linked_module() -> None:
    """A kernel that takes whole numbers, too."""
    workload = Workload.parse("gather:f32:m9k20n13")
    artifact = compile_candidate(lite_space(workload, TargetKind.WASM)[0])
    inputs = inputs_of(workload)
    linked = Artifact.of(link([artifact.body]), artifact.manifest)
    assert np.array_equal(execute(linked, inputs, export="f0"), inputs[0][inputs[1]])
