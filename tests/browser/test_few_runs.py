"""A model that its page says to run few times: its first kernels, and when others take over."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from fixtures.model_site import OfferedKernel, SiteKernels, offer_for_runs
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.registry import lite_space
from tests.browser.model_host import Handler, Host, evaluated, hosting, lists
from tests.browser.model_plans import deep
from tests.browser.sites import ISOLATED, site

WIDTH = 1280
NETWORK = deep(layers=4, rows=16, width=WIDTH)
KEY = NETWORK.plan.kernels[0]
PLAIN = [
    each
    for each in lite_space(Workload.parse(KEY), TargetKind.WASM)
    if "relaxed-simd" not in each.requires
]
WARM = next(each for each in PLAIN if ("pack", "prepacked") in each.config)
COLD = next(each for each in PLAIN if ("pack", "none") in each.config)
COSTS = (
    {"compile_ns": 1e6, "optimise_ns": 0, "pack_ns": 9e6, "first_run_ns": 2e6, "run_ns": 1e6},
    {"compile_ns": 1e6, "optimise_ns": 0, "pack_ns": 0, "first_run_ns": 2e6, "run_ns": 1.2e6},
)
"""Runs of four calls: packing pays from the twelfth on."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    made = Host(tmp_path_factory.mktemp("few-runs"))
    made.write(NETWORK, **{KEY: SiteKernels(candidate=WARM, fallback=WARM)})
    warm, cold = COSTS
    few = OfferedKernel(candidate=COLD, runs=10, costs=cold)
    usual = OfferedKernel(candidate=WARM, runs=None, costs=warm)
    offer_for_runs(made.folder / "deep.json", {KEY: (few, usual)})
    with hosting(made, Handler):
        yield made


@pytest.fixture(scope="module")
def found(lone_browser: Browser, host: Host) -> Iterator[dict[str, Any]]:
    with site(ISOLATED) as address, lone_browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        feeds = lists({"x": NETWORK.feeds["x"], "y": NETWORK.outputs["y"]})
        yield evaluated(page, host, "few_runs", "visits", feeds)


def test_a_page_that_runs_a_model_once_is_given_the_kernels_that_cost_it_least(
    found: dict[str, Any], host: Host
) -> None:
    warm, cold = WARM.candidate_id, COLD.candidate_id
    assert (found["byDefault"], found["forMany"]) == ([warm], [warm])
    assert found["once"] == {"candidates": [cold], "swaps": 0}, "it runs no more, as it told"
    assert found["predictedMs"] == 1.2
    assert "/deep-10.wasm" in host.sent, "the module of these kernels"
    assert found["worst"] < 1e-4


def test_the_fastest_kernels_take_over_once_more_runs_are_to_come(found: dict[str, Any]) -> None:
    warm, cold = WARM.candidate_id, COLD.candidate_id
    assert found["twice"]["candidates"] == [warm]
    (swap,) = found["twice"]["swaps"]
    assert (swap["before"], swap["candidate"], swap["workload"]) == (cold, warm, KEY)
    assert swap["relativeTime"] == pytest.approx(1 / 1.2)
    assert (found["atFirst"], found["soon"]) == ([cold], [warm])


def test_what_prepares_a_kernel_lets_runs_in_after_each_small_slice(found: dict[str, Any]) -> None:
    """Whatever it takes here: a slice of packing writes 128 KiB at the most, and none follows
    another before messages were let in."""
    packing = [(breath, lo, hi) for words, breath, lo, hi in found["calls"] if words == 4]
    extent = packing[-1][2]
    assert (packing[0][1], len(packing)) == (0, len({lo for _, lo, _ in packing})), "once"
    longest = max(hi - lo for _, lo, hi in packing)
    assert longest / extent * WIDTH * WIDTH * 4 <= 1 << 17
    breaths = [breath for breath, _, _ in packing]
    assert breaths == sorted(set(breaths))
