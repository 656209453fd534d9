"""Programs without a name find the family of their iterators, and its kernels are right."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelzoo.domain.operators.attention import HeadsOperand, ManyRowsAttention, attention
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.numerics.entries import entries
from services.tuner.compile import compilation, gpu_compilation
from services.tuner.ir.text import program_text
from services.tuner.passes.pipeline import ALL_PASSES
from services.tuner.schedules.registry import lite_space
from tests.examples import one_in
from tests.unit.tuner.execution import Floats, execute, inputs_of
from tests.unit.tuner.gpu_execution import execute_gpu
from tests.unit.tuner.wasm_checks import legal

SELF_ATTENTION = ManyRowsAttention(
    heads=3,
    m=23,
    n=23 + 5,
    head_dim=6,
    width=20,
    queries=HeadsOperand(place=0, columns=40, first=9),
    keys=HeadsOperand(place=1, columns=18 + 60),
    values=HeadsOperand(place=1, columns=18 + 60, first=18),
    epilogue=("scale", "mask"),
)
"""Rows and columns that are no whole tiles; keys and values of one matrix."""

PROGRAMS = {
    "attention of columns": ("attention", str(attention(SELF_ATTENTION))),
    "attention of heads apart": (
        "attention",
        str(
            attention(
                replace(
                    SELF_ATTENTION,
                    m=40,
                    queries=HeadsOperand(place=0),
                    keys=HeadsOperand(place=1),
                    values=HeadsOperand(place=2),
                    epilogue=("residual", "bias"),
                )
            )
        ),
    ),
    "attention of heads that share keys": (
        "attention",
        str(
            attention(
                replace(
                    SELF_ATTENTION,
                    heads=6,
                    m=40,
                    queries=HeadsOperand(place=0),
                    keys=HeadsOperand(place=1, shared=3),
                    values=HeadsOperand(place=2, shared=3),
                )
            )
        ),
    ),
    "attention of heads that share columns": (
        "attention",
        str(
            attention(
                replace(
                    SELF_ATTENTION,
                    heads=4,
                    keys=HeadsOperand(place=1, columns=60, shared=2),
                    values=HeadsOperand(place=1, columns=60, first=17, shared=2),
                )
            )
        ),
    ),
    "strided, padded unevenly, two stages after": (
        "conv",
        """
        a: f32[2, 9, 9, 5]
        w: f32[3, 2, 5, 7]
        bias: f32[7]
        p[i: 2, y: 11, x: 13, c: 5] = \
(a[i, y - 1, x - 2, c] if 1 <= y and y < 10 and 2 <= x and x < 11 else 0.0)
        s[i: 2, y: 5, x: 6, o: 7] = sum over r: 3, q: 2, c: 5 of \
p[i, y * 2 + r, x * 2 + q, c] * w[r, q, c, o]
        d[i: 2, y: 5, x: 6, o: 7] = s[i, y, x, o] + bias[o]
        e[i: 2, y: 5, x: 6, o: 7] = max(d[i, y, x, o], 0.0)
        """,
    ),
    "dilated": (
        "conv",
        """
        a: f32[1, 15, 15, 4]
        w: f32[3, 3, 4, 16]
        s[i: 1, y: 11, x: 5, o: 16] = sum over r: 3, q: 3, c: 4 of \
a[i, y + r * 2, x * 2 + q * 3, c] * w[r, q, c, o]
        """,
    ),
    "kv_heads": (
        "conv",
        """
        a: f32[1, 9, 8, 12]
        w: f32[3, 3, 4, 3, 8]
        s[i: 1, y: 7, x: 6, g: 3, o: 8] = sum over r: 3, q: 3, c: 4 of \
a[i, y + r, x + q, g * 4 + c] * w[r, q, c, g, o]
        """,
    ),
    "one axis": (
        "conv",
        """
        a: f32[1, 50, 8]
        w: f32[3, 8, 16]
        p[i: 1, x: 52, c: 8] = (a[i, x - 1, c] if 1 <= x and x < 51 else 0.0)
        s[i: 1, x: 50, o: 16] = sum over r: 3, c: 8 of p[i, x + r, c] * w[r, c, o]
        """,
    ),
    "channels first": (
        "conv",
        """
        a: f32[1, 4, 9, 14]
        w: f32[6, 4, 3, 3]
        s[i: 1, o: 6, y: 7, x: 12] = sum over c: 4, r: 3, q: 3 of \
a[i, c, y + r, x + q] * w[o, c, r, q]
        """,
    ),
    "each channel by itself, dilated, padded unevenly": (
        "conv",
        """
        a: f32[2, 9, 11, 8]
        w: f32[3, 2, 8]
        bias: f32[8]
        p[i: 2, y: 12, x: 14, c: 8] = \
(a[i, y - 1, x - 2, c] if 1 <= y and y < 10 and 2 <= x and x < 13 else 0.0)
        s[i: 2, y: 8, x: 6, c: 8] = sum over r: 3, q: 2 of \
p[i, y + r * 2, x * 2 + q * 3, c] * w[r, q, c]
        d[i: 2, y: 8, x: 6, c: 8] = tanh(s[i, y, x, c] + bias[c])
        """,
    ),
    "each channel by itself, weights first": (
        "conv",
        """
        w: f32[3, 8]
        a: f32[1, 30, 8]
        s[i: 1, x: 28, c: 8] = sum over q: 3 of w[q, c] * a[i, x + q, c]
        """,
    ),
    "pooling of one axis": (
        "conv",
        """
        a: f32[2, 30, 6]
        s[i: 2, x: 14, c: 6] = min over q: 4 of a[i, x * 2 + q, c]
        """,
    ),
    "pooling of three axes": (
        "conv",
        """
        a: f32[6, 7, 8, 5]
        p[z: 8, y: 7, x: 9, c: 5] = (a[z - 1, y, x, c] if 1 <= z and z < 7 and x < 8 \
else -inf)
        s[z: 4, y: 6, x: 8, c: 5] = max over t: 2, r: 2, q: 2 of p[z * 2 + t, y + r, x + q, c]
        """,
    ),
    "mean over pixels": (
        "conv",
        """
        a: f32[1, 7, 7, 160]
        s[i: 1, c: 160] = sum over y: 7, x: 7 of a[i, y, x, c]
        d[i: 1, c: 160] = s[i, c] * 0.02
        """,
    ),
    "heads split as they are stored": (
        "conv",
        """
        a: f32[1, 12, 24]
        w: f32[24, 32]
        bias: f32[32]
        s[b: 1, m: 12, n: 32] = sum over k: 24 of a[b, m, k] * w[k, n]
        t[b: 1, h: 4, m: 12, d: 8] = s[b, m, h * 8 + d] + bias[h * 8 + d]
        """,
    ),
    "heads read where they lie": (
        "conv",
        """
        p: f32[1, 4, 12, 20]
        v: f32[1, 20, 4, 8]
        s[b: 1, m: 12, h: 4, d: 8] = sum over t: 20 of p[b, h, m, t] * v[b, t, h, d]
        """,
    ),
    "epilogue of any form, inputs in any order": (
        "matmul",
        """
        r: f32[1, 20, 18]
        w: f32[9, 18]
        bias: f32[18]
        x: f32[1, 20, 9]
        s[b: 1, m: 20, n: 18] = sum over k: 9 of x[b, m, k] * w[k, n]
        t[b: 1, m: 20, n: 18] = tanh(s[b, m, n] + bias[n]) + r[b, m, n] * 2.0
        """,
    ),
    "weights first": (
        "matmul",
        """
        w: f32[9, 18]
        x: f32[20, 9]
        s[m: 20, n: 18] = sum over k: 9 of w[k, n] * x[m, k]
        """,
    ),
    "mask by position": (
        "matmul",
        """
        q: f32[3, 10, 8]
        k: f32[3, 12, 8]
        s[h: 3, m: 10, n: 12] = sum over d: 8 of q[h, m, d] * k[h, n, d]
        t[h: 3, m: 10, n: 12] = (s[h, m, n] * 0.35 if n <= m else -10.0)
        """,
    ),
    "one row": (
        "gemv",
        """
        x: f32[1, 36]
        w: f32[36, 75]
        bias: f32[75]
        s[m: 1, n: 75] = sum over k: 36 of x[m, k] * w[k, n]
        t[m: 1, n: 75] = max(s[m, n] + bias[n], 0.0)
        """,
    ),
    "an operand that is only read in part": (
        "conv",
        """
        x: f32[20, 12]
        w: f32[9, 18]
        s[m: 20, n: 18] = sum over k: 9 of x[m, k + 3] * w[k, n]
        """,
    ),
    "two products in a sum": (
        "conv",
        """
        x: f32[20, 9]
        w: f32[9, 18]
        s[m: 20, n: 18] = sum over k: 9 of x[m, k] * w[k, n] + x[m, k]
        """,
    ),
    "a norm of a sum, with what follows": (
        "reduction",
        """
        a: f32[6, 37]
        b: f32[6, 37]
        gamma: f32[37]
        x[i: 6, j: 37] = a[i, j] + b[i, j]
        t[i: 6] = sum over k: 37 of x[i, k]
        r[i: 6, j: 37] = x[i, j] - t[i] * 0.02702702702702703
        q[i: 6] = sum over k: 37 of r[i, k] * r[i, k]
        n[i: 6, j: 37] = r[i, j] * rsqrt(q[i] * 0.02702702702702703 + 1e-05) * gamma[j]
        c[i: 6, j: 37] = max(n[i, j], 0.0) + b[i, j]
        """,
    ),
    "softmax with a scale, a mask of all heads and one of columns": (
        "reduction",
        """
        a: f32[2, 3, 10, 16]
        mask: f32[10, 16]
        valid: f32[2, 16]
        x[b: 2, h: 3, i: 10, j: 16] = a[b, h, i, j] * 0.35 + mask[i, j]
        y[b: 2, h: 3, i: 10, j: 16] = (x[b, h, i, j] if valid[b, j] <= 0.25 else -10000.0)
        t[b: 2, h: 3, i: 10] = max over k: 16 of y[b, h, i, k]
        e[b: 2, h: 3, i: 10, j: 16] = exp(y[b, h, i, j] - t[b, h, i])
        s[b: 2, h: 3, i: 10] = sum over k: 16 of e[b, h, i, k]
        c[b: 2, h: 3, i: 10, j: 16] = e[b, h, i, j] / s[b, h, i]
        """,
    ),
    "masked softmax of odd rows": (
        "reduction",
        """
        a: f32[9, 21]
        mask: f32[21]
        y[i: 9, j: 21] = a[i, j] * 4.0 + mask[j] - 3.0
        t[i: 9] = max over k: 21 of y[i, k]
        e[i: 9, j: 21] = exp(y[i, j] - t[i])
        s[i: 9] = sum over k: 21 of e[i, k]
        c[i: 9, j: 21] = e[i, j] / s[i] * a[i, j]
        """,
    ),
    "a norm of channels, whose pixels are two axes": (
        "reduction",
        """
        a: f32[1, 8, 6, 12]
        gamma: f32[8]
        t[b: 1, c: 8] = sum over y: 6, x: 12 of a[b, c, y, x]
        q[b: 1, c: 8] = sum over y: 6, x: 12 of a[b, c, y, x] * a[b, c, y, x]
        m[b: 1, c: 8] = t[b, c] * 0.013888888888888888
        v[b: 1, c: 8] = q[b, c] * 0.013888888888888888 - m[b, c] * m[b, c]
        o[b: 1, c: 8, y: 6, x: 12] = (a[b, c, y, x] - m[b, c]) / sqrt(v[b, c] + 0.01) * gamma[c]
        """,
    ),
    "from the smallest to the largest": (
        "reduction",
        """
        a: f32[4, 3, 19]
        l[i: 4, h: 3] = min over k: 19 of a[i, h, k]
        u[i: 4, h: 3] = max over k: 19 of a[i, h, k] + 1.0
        c[i: 4, h: 3, j: 19] = (a[i, h, j] - l[i, h]) / (u[i, h] - l[i, h])
        """,
    ),
    "rows times a vector": (
        "reduction",
        """
        a: f32[24, 30]
        b: f32[30]
        bias: f32[24]
        s[i: 24] = sum over k: 30 of a[i, k] * b[k]
        c[i: 24] = tanh(s[i] + bias[i])
        """,
    ),
    "one number": (
        "reduction",
        """
        a: f32[10, 10]
        s[i: 1] = prod over y: 10, x: 10 of a[y, x] * 0.25 + 1.0
        """,
    ),
    "entry by entry": (
        "elementwise",
        """
        a: f32[3, 5, 7]
        b: f32[3, 5, 7]
        scale: f32[1]
        s[i: 3, j: 5, k: 7] = a[i, j, k] + b[i, j, k]
        c[i: 3, j: 5, k: 7] = (s[i, j, k] * scale[0] if a[i, j, k] <= 0.1 else tanh(s[i, j, k]))
        """,
    ),
    "a chain of entries that lie transposed": (
        "elementwise",
        """
        a: f32[2, 9, 39]
        b: f32[9]
        y[i: 2, j: 39, k: 9] = (tanh(a[i, k, j] + b[k]) if a[i, k, j] <= 0.1 else 0.5)
        """,
    ),
    "a transposition with padding": (
        "elementwise",
        """
        a: f32[2, 9, 23]
        y[i: 2, j: 26, k: 9] = (a[i, k, j - 2] if 2 <= j and j < 25 else 0.25)
        """,
    ),
    "a norm of channels that lie last": (
        "elementwise",
        """
        a: f32[1, 6, 7, 48]
        gamma: f32[48]
        t[b: 1, c: 48] = sum over y: 6, x: 7 of a[b, y, x, c]
        r[b: 1, c: 48, y: 6, x: 7] = a[b, y, x, c] - t[b, c] * 0.023809523809523808
        q[b: 1, c: 48] = sum over y: 6, x: 7 of r[b, c, y, x] * r[b, c, y, x]
        f[b: 1, c: 48] = rsqrt(q[b, c] * 0.023809523809523808 + 0.01)
        o[b: 1, y: 6, x: 7, c: 48] = r[b, c, y, x] * f[b, c] * gamma[c]
        """,
    ),
    "softmax over another axis than the last": (
        "elementwise",
        """
        x: f32[2, 5, 19]
        t[b: 2, j: 19] = max over k: 5 of x[b, k, j]
        e[b: 2, i: 5, j: 19] = exp(x[b, i, j] - t[b, j])
        s[b: 2, j: 19] = sum over k: 5 of e[b, k, j]
        c[b: 2, i: 5, j: 19] = e[b, i, j] / s[b, j]
        """,
    ),
    "the place of the largest": (
        "elementwise",
        """
        x: f32[7, 9]
        t[j: 9] = max over k: 7 of x[k, j]
        c[j: 9]: i32 = min over k: 7 of (k if x[k, j] == t[j] else 7)
        """,
    ),
    "conditions inside of a sum": (
        "elementwise",
        """
        a: f32[1, 9, 8]
        w: f32[3, 8, 16]
        s[x: 9, o: 16] = sum over r: 3, c: 8 of \
(a[0, x + r - 1, c] if 1 <= x + r and x + r < 10 else 0.0) * w[r, c, o]
        """,
    ),
}
ON_GPU = {
    "attention of heads that share keys": "elementwise",
    "attention of heads that share columns": "elementwise",
    **dict.fromkeys(("attention of columns", "attention of heads apart"), "elementwise"),
    **dict.fromkeys(
        ("strided, padded unevenly, two stages after", "dilated", "one axis"), "matmul"
    ),
    **dict.fromkeys(("kv_heads", "channels first", "mean over pixels"), "elementwise"),
    **dict.fromkeys(("heads split as they are stored", "heads read where they lie"), "elementwise"),
    **dict.fromkeys(("an operand that is only read in part", "mask by position"), "elementwise"),
    "two products in a sum": "elementwise",
    "one row": "matmul",
}
"""Families of webgpu, where they are others than those of wasm."""

TOLERANCE = 1e-5
"""Sums of at most 45 products of numbers below 1/2."""


def workload_of(text: str) -> Workload:
    lines = (line.strip() for line in text.strip().splitlines())
    return Workload.of_program("test", parsed("\n".join(lines)))


def right_values(workload: Workload, inputs: list[Floats]) -> NDArray[np.float64]:
    def lookup(number: int, at: NDArray[np.int64]) -> NDArray[np.float64]:
        return inputs[number].ravel()[at].astype(np.float64)

    made = entries(workload.program, np.arange(workload.output.elements), lookup)
    return made.reshape(workload.output.shape)


@pytest.mark.parametrize("name", one_in(3, PROGRAMS))
def test_a_program_without_a_name_has_the_kernels_of_its_family(name: str) -> None:
    family, text = PROGRAMS[name]
    workload = workload_of(text)
    inputs = inputs_of(workload)
    wanted = right_values(workload, inputs)
    space = lite_space(workload, TargetKind.WASM)
    assert space[0].family == family
    for candidate in space[:: max(1, len(space) // 4)]:
        steps = legal(candidate)
        output = execute(steps.artifact, inputs)
        assert np.abs(output - wanted).max() <= TOLERANCE, candidate.config
        extent = steps.artifact.manifest.range_extent
        halves = ((extent // 2, extent), (0, extent // 2))
        assert np.array_equal(execute(steps.artifact, inputs, halves), output)


@pytest.mark.parametrize("name", one_in(3, PROGRAMS))
def test_a_program_without_a_name_is_right_on_a_gpu(name: str) -> None:
    workload = workload_of(PROGRAMS[name][1])
    inputs = inputs_of(workload)
    wanted = right_values(workload, inputs)
    space = lite_space(workload, TargetKind.WEBGPU)
    assert space[0].family == ON_GPU.get(name, PROGRAMS[name][0])
    within = [each for each in space if set(each.requires) <= {"subgroups"}]
    some = (*within[:: max(1, len(within) // 3)], *{each.family: each for each in within}.values())
    for candidate in dict.fromkeys(some):
        output = execute_gpu(gpu_compilation(candidate).artifact, inputs, slices=1)
        assert np.abs(output - wanted).max() <= TOLERANCE, candidate.config


def test_entries_by_themselves_are_vectors_whatever_their_axes() -> None:
    (candidate, *_) = lite_space(workload_of(PROGRAMS["entry by entry"][1]), TargetKind.WEBGPU)
    text = gpu_compilation(candidate).artifact.body.decode()
    assert "array<vec4<f32>>" in text
    assert len(gpu_compilation(candidate).optimised) == 1


def test_windows_of_one_axis_have_slices_where_it_splits_evenly() -> None:
    (candidate, *_) = lite_space(workload_of(PROGRAMS["one axis"][1]), TargetKind.WASM)
    assert compilation(candidate, ALL_PASSES).artifact.manifest.range_extent == 10


@pytest.mark.parametrize(
    ("name", "slices"),
    [
        ("a norm of channels that lie last", 3),
        ("softmax over another axis than the last", 2),
        ("the place of the largest", 1),
    ],
)
def test_nests_with_a_common_axis_are_computed_slice_by_slice(name: str, slices: int) -> None:
    (candidate, *_) = lite_space(workload_of(PROGRAMS[name][1]), TargetKind.WASM)
    assert compilation(candidate, ALL_PASSES).artifact.manifest.range_extent == slices


def test_a_sum_along_the_last_axis_of_its_output_is_in_vectors() -> None:
    workload = workload_of(PROGRAMS["softmax over another axis than the last"][1])
    (candidate, *_) = lite_space(workload, TargetKind.WASM)
    text = program_text(compilation(candidate, ALL_PASSES).optimised)
    largest, total = (
        [line for line in text.splitlines() if f"= {op}(s{n}[" in line or f"= (s{n}[" in line]
        for n, op in ((0, "maximum"), (2, "add"))
    )
    for lines in (largest, total):
        assert any("+4] = " in line for line in lines), text
