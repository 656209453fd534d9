"""The oracle of plans and kernels against float64."""

from math import erf

import numpy as np
import pytest

from kernelzoo.domain.operators.parsing import parsed
from services.tuner.graph.evaluate import evaluate, run_program
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
