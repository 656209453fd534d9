"""The lookup tables, compiled by a compiler of each language and asked."""

import shutil
import subprocess
from pathlib import Path

import pytest

from kernelzoo.domain.target import TargetKind
from kernelzoo.formats.results import TableRow
from kernelzoo.formats.tables import cpp, typescript, winners

KEY = "matmul:f32:m384k768n768"
BASE, RELAXED = ("simd128",), ("relaxed-simd", "simd128")
TSC = Path(__file__).parents[3] / "client" / "node_modules" / ".bin" / "tsc"


def row(
    vendor: str,
    artifact: str,
    ballots: int,
    relative_time: float = 0.5,
    requires: tuple[str, ...] = BASE,
) -> TableRow:
    return TableRow(
        workload_key=KEY,
        vendor=vendor,
        target=TargetKind.WASM,
        requires=requires,
        config=(("fma", False), ("pack", "kernel"), ("tile_m", 4)),
        artifact=artifact * 64,
        ballots=ballots,
        relative_time=relative_time,
    )


ENTRIES = (
    row("x86", "a", 5, 0.8),
    row("x86", "b", 3, 0.5),
    row("x86", "b", 4, 0.6),
    row("arm", "c", 9),
    row("x86", "d", 20, 0.4, RELAXED),
)


def chosen() -> dict[tuple[str, tuple[str, ...]], TableRow]:
    return {(each.vendor, each.requires): each for each in winners(ENTRIES)}


def test_most_ballots_of_a_vendor_elect_its_kernel_and_those_of_all_the_common_one() -> None:
    found = chosen()
    assert found["x86", BASE].artifact == "b" * 64
    assert (found["x86", BASE].ballots, found["x86", BASE].relative_time) == (7, 0.5571)
    assert found["", BASE].artifact == "c" * 64


def test_kernels_that_require_other_features_do_not_compete() -> None:
    found = chosen()
    assert found["x86", RELAXED].artifact == found["", RELAXED].artifact == "d" * 64
    assert ("arm", RELAXED) not in found


def test_of_equal_ballots_the_greater_gain_wins() -> None:
    tied = winners((row("x86", "a", 2, 0.9), row("x86", "b", 2, 0.7)))
    assert {each.artifact for each in tied} == {"b" * 64}


CPP_MAIN = f"""
#include <iostream>
#include "kernelzoo.hpp"

constexpr bool base(std::string_view features) {{ return features == "simd128"; }}
constexpr bool all(std::string_view) {{ return true; }}

static_assert(kernelzoo::find("{KEY}", "wasm", "arm", base)->ballots == 9);

int main() {{
  for (auto vendor : {{"x86", "arm", "riscv"}}) {{
    const auto* kernel = kernelzoo::find("{KEY}", "wasm", vendor, base);
    std::cout << kernel->sha256[0] << kernelzoo::setting(*kernel, "tile_m")
              << kernelzoo::setting(*kernel, "fma");
  }}
  std::cout << kernelzoo::find("{KEY}", "wasm", "x86", all)->sha256[0];
  std::cout << (kernelzoo::find("{KEY}", "webgpu", "x86", all) == nullptr) << std::endl;
}}
"""


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_a_cpp_program_finds_the_kernel_of_its_vendor(tmp_path: Path) -> None:
    (tmp_path / "kernelzoo.hpp").write_text(cpp(winners(ENTRIES)))
    (tmp_path / "main.cpp").write_text(CPP_MAIN)
    flags = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-o", "main")
    subprocess.run(["c++", *flags, "main.cpp"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["b4falsec4falsec4falsed1"]


TS_MAIN = f"""
import {{ find }} from "./kernelzoo.js";
const base = new Set(["simd128"]);
const all = new Set(["simd128", "relaxed-simd"]);
const said = ["x86", "arm", "riscv"].map((vendor) => {{
  const kernel = find("{KEY}", "wasm", vendor, base);
  return `${{kernel?.sha256[0]}}${{kernel?.config["tile_m"]}}${{kernel?.config["fma"]}}`;
}});
console.log(...said, find("{KEY}", "wasm", "x86", all)?.sha256[0]);
console.log(find("{KEY}", "webgpu", "x86", all));
"""


@pytest.mark.skipif(not TSC.exists(), reason="needs the client's packages")
def test_a_typescript_program_finds_the_kernel_of_its_vendor(tmp_path: Path) -> None:
    (tmp_path / "kernelzoo.ts").write_text(typescript(winners(ENTRIES)))
    (tmp_path / "main.ts").write_text(TS_MAIN)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    flags = ("--strict", "--noUncheckedIndexedAccess", "--module", "nodenext", "--target", "es2022")
    built = subprocess.run(
        [TSC, *flags, "--lib", "es2022,dom", "main.ts"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout
    said = subprocess.run(
        ["node", "main.js"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["b4false", "c4false", "c4false", "d", "undefined"]
