"""The oracle of plans and kernels against float64."""

import tracemalloc
from math import erf

import numpy as np
import pytest

from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.numerics.stages import run_program
from services.tuner.graph.evaluate import evaluate
from tests.unit.graph.graphs import Built


@pytest.mark.parametrize("key", ["matmul:f32:m128k1500n256", "matmul_nt:f32:m128k1500n256"])
def test_a_large_product_errs_by_a_hundredth_of_what_a_page_may(key: str) -> None:
    """A page may err by 1e-4 of the largest entry."""
    built = Built()
    a = built.feed(128, 1500)
    b = built.feed(*((1500, 256) if key.startswith("matmul:") else (256, 1500)))
    graph = built.graph(built.workload(key, a, b))
    random = np.random.default_rng(3)
    feeds = {name: random.standard_normal(built.shape(name), np.float32) for name in (a, b)}
    right = feeds[b] if key.startswith("matmul:") else feeds[b].T
    exact = feeds[a].astype(np.float64) @ right
    made = evaluate(graph, feeds)["out0"]
    assert np.abs(made - exact).max() < 1e-6 * np.abs(exact).max()


def test_erf_is_right_to_the_last_place() -> None:
    ends = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 7e30])
    x = np.concatenate((np.linspace(-7, 7, 4001), np.logspace(-30, 0, 300), ends))
    x = x.astype(np.float32)
    program = parsed(f"x: f32[{x.size}]\ny[i: {x.size}] = erf(x[i])")
    wanted = np.array([erf(each) for each in x], np.float32)
    np.testing.assert_array_max_ulp(run_program(program, [x])[~np.isnan(x)], wanted[~np.isnan(x)])
    assert np.isnan(run_program(program, [x])[np.isnan(x)]).all()


def test_a_tensor_is_read_at_axes_in_any_order_at_numbers_and_beyond_its_end() -> None:
    """The last is the side of a choice that is not taken."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    program = parsed(
        "x: f32[2, 3, 4]\n"
        "y[i: 4, j: 5, k: 2] = (x[k, j, i] + x[1, 2, i] + x[k, 0, 3] if j < 3 else x[0, 0, i])"
    )
    spread = np.pad(x, ((0, 0), (0, 2), (0, 0))).transpose(2, 1, 0)
    wanted = spread + x[1, 2][:, None, None] + x[:, 0, 3]
    wanted[:, 3:] = x[0, 0][:, None, None]
    assert np.array_equal(run_program(program, [x]), wanted)


WINDOWS = {
    "of all channels": (
        (
            "x: f32[1, 64, 64, 32]\nw: f32[3, 3, 32, 48]\n"
            "y[b: 1, i: 60, j: 60, o: 48] = sum over r: 3, q: 3, c: 32 of "
            "x[b, i + r * 2, j + q * 2, c] * w[r, q, c, o]"
        ),
        "bijrqc,rqco->bijo",
    ),
    "in groups": (
        (
            "x: f32[1, 64, 64, 32]\nw: f32[3, 3, 8, 4, 12]\n"
            "y[b: 1, i: 60, j: 60, g: 4, o: 12] = sum over r: 3, q: 3, c: 8 of "
            "x[b, i + r * 2, j + q * 2, g * 8 + c] * w[r, q, c, g, o]"
        ),
        "bijrqgc,rqcgo->bijgo",
    ),
}


@pytest.mark.parametrize("form", WINDOWS)
def test_windows_of_a_program_are_summed_without_an_array_of_all_products(form: str) -> None:
    """There are 50 million products in the first: 200 MB of f32."""
    text, sums = WINDOWS[form]
    program = parsed(text)
    random = np.random.default_rng(3)
    x, w = (random.standard_normal(each.shape, np.float32) for each in program.inputs)
    tracemalloc.start()
    made = run_program(program, [x, w])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    under = np.lib.stride_tricks.sliding_window_view(x, (5, 5), (1, 2))[..., ::2, ::2]
    under = under.transpose(0, 1, 2, 4, 5, 3).astype(np.float64)
    if form == "in groups":
        under = under.reshape(*under.shape[:-1], 4, 8)
    exact = np.einsum(sums, under, w.astype(np.float64))
    assert np.abs(made - exact).max() < 1e-6 * np.abs(exact).max()
    assert peak < 60e6


def test_a_large_convolution_errs_by_a_hundredth_of_what_a_page_may() -> None:
    built = Built()
    x, w = built.feed(1, 32, 32, 128), built.feed(3, 3, 128, 64)
    graph = built.graph(built.workload("conv2d:f32:b1h32w32c128o64kh3kw3stride2pad1", x, w))
    random = np.random.default_rng(3)
    feeds = {name: random.standard_normal(built.shape(name), np.float32) for name in (x, w)}
    padded = np.pad(feeds[x], ((0, 0), (1, 1), (1, 1), (0, 0))).astype(np.float64)
    under = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
    exact = np.einsum("byxcij,ijco->byxo", under, feeds[w].astype(np.float64), optimize=True)
    made = evaluate(graph, feeds)["out0"]
    assert np.abs(made - exact).max() < 1e-6 * np.abs(exact).max()


def test_a_transposed_feed_is_read_at_sums_of_axes() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4).T
    program = parsed("x: f32[4, 3]\ny[i: 3, j: 2] = x[i + 1, j + 1] + x[3 - i, j]")
    wanted = x[1:, 1:] + x[3:0:-1, :2]
    assert np.array_equal(run_program(program, [x]), wanted)
