"""The kernel replay says which kernels differ between two checkouts, and no others."""

import shutil
from pathlib import Path

import pytest

from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.target import MEASURED, TargetKind
from kernelzoo.domain.workload import Workload
from scripts.replay.__main__ import ROOT, Changes, Replay, keys_named, replays
from scripts.replay.hashing import nameless
from scripts.replay.programs import programs
from services.tuner.schedules.registry import FAMILIES, matching

RELU, MATMUL = "relu:f32:n64", "matmul:f32:m16k16n16"


def test_changed_appeared_disappeared_and_reordered_are_told_apart() -> None:
    before = Replay(
        spaces={"a wasm": ["1", "2"], "b wasm": ["3", "4"], "gone any": ["5"]},
        kernels={"a wasm 1": "x - wasm", "a wasm 2": "y - wasm", "b wasm 3": "z - wasm"},
    )
    after = Replay(
        spaces={"a wasm": ["6", "1", "7"], "b wasm": ["4", "3"]},
        kernels={"a wasm 1": "w - wasm", "a wasm 6": "v - wasm", "b wasm 3": "z - wasm"},
    )
    changes = Changes.between(before, after)
    assert changes == Changes(
        changed=("a wasm 1",),
        renamed=(),
        appeared=("a wasm 6", "a wasm 7"),
        disappeared=("a wasm 2", "gone any 5"),
        reordered=("b wasm",),
        same=1,
        identified=0,
    )
    assert not changes.none
    assert Changes.between(before, before).none
    assert after.place("a wasm 1") == ("a", "wasm", "1")


def test_candidates_with_new_ids_are_compared_by_their_place_in_the_space() -> None:
    before = Replay(
        spaces={"a any": ["1", "2", "3"]},
        kernels={"a webgpu 1": "x - any", "a webgpu 2": "y gain any", "a webgpu 3": "z - any"},
    )
    after = Replay(
        spaces={"a any": ["4", "5", "6"]},
        kernels={"a webgpu 4": "x - any", "a webgpu 5": "y gamma any", "a webgpu 6": "w - any"},
    )
    changes = Changes.between(before, after)
    assert changes == Changes(
        changed=("a webgpu 6",),
        renamed=("a webgpu 5",),
        appeared=(),
        disappeared=(),
        reordered=(),
        same=1,
        identified=3,
    )
    assert not changes.none


def test_names_that_a_module_declares_are_apart_from_what_it_computes() -> None:
    text = "var<storage, read> {0}: array<f32>;\nfn main() {{ let {1} = {2}({0}[0], {1}); }}"
    told: list[str] = []
    plain = nameless(text.format("gain", "sum", "max"), told)
    assert told == ["gain", "main", "sum"]
    assert nameless(text.format("gamma", "total", "max"), []) == plain
    assert nameless(text.format("gain", "sum", "min"), []) != plain
    assert nameless(text.format("sum", "sum", "max"), []) != plain


def test_workloads_are_those_that_tests_and_benchmarks_name() -> None:
    named = keys_named(ROOT)
    assert {RELU, "conv2d+bias+relu:f32:b1h56w56c64o64kh3kw3stride1pad1"} <= named
    assert {"matmul:f32:m1k768n3072:constant=b", "matmul:f16:m384k768n768"} <= named


def test_programs_without_a_name_are_replayed_in_every_family_that_takes_them() -> None:
    families = set()
    for text in programs().values():
        workload = Workload.of_program("replay", parsed(text))
        for target in (TargetKind.WASM, TargetKind.WEBGPU):
            families |= {(each.name, target) for each in matching(workload, target)}
    assert families >= {
        (each.name, each.target) for each in FAMILIES if each.programs and each.target in MEASURED
    }


@pytest.mark.slow
def test_a_change_of_one_printer_changes_the_kernels_that_it_prints(tmp_path: Path) -> None:
    """The other checkout has no hasher of its own, as commits before this one."""
    for package in ("kernelzoo", "services"):
        shutil.copytree(ROOT / package, tmp_path / package)
    printer = tmp_path / "services/tuner/codegen/wgsl/expressions.py"
    text = printer.read_text()
    changed = text.replace('f"fma(', 'f"mad(')
    assert changed != text
    printer.write_text(changed)
    before, after = replays((ROOT, tmp_path), [RELU, MATMUL], everything=False)
    changes = Changes.between(before, after)
    assert changes.changed
    assert all(name.startswith(f"{MATMUL} webgpu ") for name in changes.changed)
    assert changes.appeared + changes.disappeared + changes.reordered == ()
    assert changes.same >= len([name for name in before.kernels if name.startswith(RELU)]) > 0
    assert {f"{key} {place}" for key in (RELU, MATMUL) for place in ("wasm", "any")} <= set(
        before.spaces
    )
