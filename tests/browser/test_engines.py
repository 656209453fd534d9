"""Compiled artifacts in Chromium and in Firefox: one isolated page runs them all, against NumPy."""

from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fixtures.blank import BROWSERS, blank_site
from fixtures.wasm_space import common_space
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators import EPILOGUES, OPERATORS
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compile_candidate
from services.tuner.schedules.base.wasm_config import Pack
from services.tuner.schedules.matmul.config import Outer
from tests.unit.tuner.candidates import schedule
from tests.unit.tuner.execution import NUMPY, Floats, inputs_of, packed_inputs
from tests.unit.tuner.reference import EXAMPLES, reference
from tests.unit.tuner.test_integer_matmul import exact
from workers.fleet.firefox import find_firefox

EXACT = (
    "matmul_u8i8:f32:m61k132n67:constant=b",
    "matmul_u8i7:f32:m61k132n67:constant=b",
    "matmul_u8i7z:f32:m21k12n24:constant=b",
)
"""Products of integers, which have the same bits in every engine."""
KEYS = (*EXAMPLES, "matmul+sigmoid:f32:m5k6n7", "matmul:f32:m61k31n67", *EXACT)
PACKED = Workload.parse("matmul:f32:m29k31n67:constant=b")
FMA = "relaxed-simd"
ALIGNMENT_BYTES = 64

RUN = """async ([cases, pages]) => {
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const text = (view) => {
    let all = "";
    for (const byte of view) all += String.fromCharCode(byte);
    return btoa(all);
  };
  const memory = new WebAssembly.Memory({ initial: pages, maximum: 65536, shared: true });
  return cases.map(({ body, starts, inputs, words, extent, output }) => {
    if (!WebAssembly.validate(bytes(body))) return null;
    new Float32Array(memory.buffer).fill(NaN);
    inputs.forEach((input, i) => new Uint8Array(memory.buffer).set(bytes(input), starts[i]));
    const module = new WebAssembly.Module(bytes(body));
    new WebAssembly.Instance(module, { env: { memory } }).exports.main(...words, 0, extent);
    return text(new Uint8Array(memory.buffer, output[0], output[1]).slice());
  });
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCase:
    workload: Workload
    candidate: Candidate
    artifact: Artifact
    plain: list[Floats]
    inputs: list[Floats]
    wanted: NDArray[np.float64]

    @property
    def fuses(self) -> bool:
        return FMA in self.artifact.manifest.requires

    @property
    def starts(self) -> list[int]:
        """Places where tensors begin, then scratch, then the end."""
        manifest = self.artifact.manifest
        starts = [ALIGNMENT_BYTES]
        for size in (*(tensor.size_bytes for tensor in manifest.tensors), manifest.scratch_bytes):
            starts.append(starts[-1] + -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)
        return starts

    def told(self) -> dict[str, Any]:
        manifest, count = self.artifact.manifest, len(self.artifact.manifest.tensors)
        return {
            "body": b64encode(self.artifact.body).decode(),
            "starts": self.starts,
            "inputs": [b64encode(array.tobytes()).decode() for array in self.inputs],
            "words": self.starts[: count + 1 if manifest.scratch_bytes else count],
            "extent": manifest.range_extent,
            "output": [self.starts[count - 1], manifest.tensors[-1].size_bytes],
        }

    def error(self, output: str) -> float:
        dtype = NUMPY[self.workload.output.dtype]
        values = np.frombuffer(b64decode(output), dtype).reshape(self.wanted.shape)
        return float(np.abs(values - self.wanted).max())


def _case(candidate: Candidate) -> EngineCase:
    workload, artifact = candidate.workload, compile_candidate(candidate)
    inputs = inputs_of(workload)
    return EngineCase(
        workload=workload,
        candidate=candidate,
        artifact=artifact,
        plain=inputs,
        inputs=packed_inputs(candidate, artifact, inputs),
        wanted=reference(workload, inputs),
    )


def _points(key: str) -> Iterator[Candidate]:
    """The first that fuses products and sums, the first that does not, and the last."""
    space = common_space(Workload.parse(key))
    for fuses in (True, False):
        yield from [each for each in space if (FMA in each.requires) is fuses][:1]
    yield space[-1]


@lru_cache(maxsize=1)
def cases() -> tuple[EngineCase, ...]:
    packings = [
        schedule(PACKED, (4, 8), unroll_k=2, pack=pack, fma=fma, outer=Outer.COLUMNS)
        for pack in Pack
        for fma in (True, False)
    ]
    points = [point for key in KEYS for point in _points(key)]
    return tuple(_case(candidate) for candidate in dict.fromkeys((*points, *packings)))


def test_the_set_has_every_operator_epilogue_and_packing() -> None:
    assert {case.workload.operator.name for case in cases()} == set(OPERATORS)
    assert {name for case in cases() for name in case.workload.epilogue} == set(EPILOGUES)
    assert {dict(case.candidate.config).get("pack") for case in cases()} >= set(Pack)
    assert {case.fuses for case in cases()} == {True, False}


@pytest.mark.parametrize("browser", BROWSERS)
def test_every_artifact_computes_the_same_in(browser: str) -> None:
    """Artifacts with relaxed SIMD run where the engine has it; those that need only simd128 run in
    all."""
    if browser == "firefox" and find_firefox() is None:
        pytest.skip("there is no Firefox; install one with `apt-get install firefox-esr`")
    pages = -(-max(case.starts[-1] for case in cases()) // 65_536)
    with blank_site() as url, BROWSERS[browser]() as page:
        page.goto(url)
        outputs = page.evaluate(RUN, [[case.told() for case in cases()], pages])
    answers = list(zip(cases(), outputs, strict=True))
    fuses_here = any(case.fuses and output is not None for case, output in answers)
    for case, output in answers:
        if case.fuses and not fuses_here:
            continue
        assert output is not None, f"{case.workload.key} is no valid module"
        assert case.error(output) <= comparison_tolerance(case.workload), case.workload.key
        if case.workload.key in EXACT:
            assert b64decode(output) == exact(case.workload, case.plain).tobytes()
    assert fuses_here or browser == "firefox"
