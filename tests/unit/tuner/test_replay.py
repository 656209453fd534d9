"""The kernel replay says which kernels differ between two checkouts, and no others."""

import shutil
from pathlib import Path

from scripts.replay.__main__ import ROOT, Changes, Replay, keys_named, replays

RELU, MATMUL = "relu:f32:n64", "matmul:f32:m16k16n16"


def test_changed_appeared_disappeared_and_reordered_are_told_apart() -> None:
    before = Replay(
        spaces={"a wasm": ["1", "2"], "b wasm": ["3", "4"], "gone any": ["5"]},
        kernels={"a wasm 1": "x wasm", "a wasm 2": "y wasm", "b wasm 3": "z wasm"},
    )
    after = Replay(
        spaces={"a wasm": ["1", "6"], "b wasm": ["4", "3"]},
        kernels={"a wasm 1": "w wasm", "a wasm 6": "v wasm", "b wasm 3": "z wasm"},
    )
    changes = Changes.between(before, after)
    assert changes == Changes(
        changed=("a wasm 1",),
        appeared=("a wasm 6",),
        disappeared=("a wasm 2", "gone any 5"),
        reordered=("b wasm",),
        same=1,
    )
    assert not changes.none
    assert Changes.between(before, before).none
    assert after.place("a wasm 1") == ("a", "wasm", "1")


def test_workloads_are_those_that_tests_and_benchmarks_name() -> None:
    named = keys_named(ROOT)
    assert {RELU, "conv2d+bias+relu:f32:b1h56w56c64o64r3q3s1p1"} <= named
    assert {"matmul:f32:m1k768n3072:constant=b", "matmul:f16:m384k768n768"} <= named


def test_a_change_of_one_printer_changes_the_kernels_that_it_prints(tmp_path: Path) -> None:
    """The other checkout has no hasher of its own, as commits before this one."""
    for package in ("kernelzoo", "services"):
        shutil.copytree(ROOT / package, tmp_path / package)
    printer = tmp_path / "services/tuner/codegen/wgsl/values.py"
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
