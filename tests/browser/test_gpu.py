"""WebGPU engine, timer, instrument and probe of the client in Chromium, on a software adapter."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.sites import ISOLATED, site
from workers.fleet.chromium import launched_chromium
from workers.fleet.gpu import GpuChoice, gpu_flags

CLIENT = Path(__file__).parents[2] / "client"
IMPORT = """async (code) => {
  const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  globalThis.gpu = await import(url);
}"""

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def call() -> Iterator[Call]:
    """Calls a function of client/tests/browser/gpu.ts in a page."""
    command = ["node", "bundle-page.js", "tests/browser/gpu.ts"]
    bundle = subprocess.run(command, cwd=CLIENT, check=True, capture_output=True, text=True)
    code = Path(bundle.stdout.strip()).read_text()
    with site(ISOLATED) as address, launched_chromium(*gpu_flags(GpuChoice.SOFTWARE)) as browser:
        page = browser.new_page()
        page.goto(address)
        page.evaluate(IMPORT, code)

        def called(name: str, *arguments: Any) -> Any:
            return page.evaluate("([name, given]) => gpu[name](...given)", [name, arguments])

        yield called


@pytest.mark.parametrize("units", [1, 7, 1000])
def test_a_kernel_of_two_dispatches_is_right_in_any_slices(call: Call, units: int) -> None:
    assert call("rightInPartsOf", units) is True


def test_each_fault_is_recorded_at_its_stage_and_the_next_kernel_is_right(call: Call) -> None:
    expected = {
        "right": ("ok", ""),
        "wrong": ("compare", "differs from the reference"),
        "partial": ("compare", "NaN"),
        "unreadable": ("validate", "at line 7"),
        "misnamed": ("validate", "main"),
        "misbound": ("validate", "not compatible"),
        "demanding": ("validate", "workgroup-memory-64k"),
    }
    made = call("measured", [*expected, "right"])
    assert [each["outcome"] for each in made] == [*(o for o, _ in expected.values()), "ok"]
    for measurement, (_, detail) in zip(made, expected.values(), strict=False):
        assert detail in measurement["detail"]


@pytest.mark.parametrize(
    ("right", "wrong"), [("keeping", "forgetting"), ("halving", "exchanging")], ids=["f32", "f16"]
)
def test_a_state_is_held_to_what_the_reference_leaves_in_it_and_each_kernel_begins_anew(
    call: Call, right: str, wrong: str
) -> None:
    for slow in (False, True):
        made = call("measured", [right, wrong, right], right, slow)
        assert [each["outcome"] for each in made] == ["ok", "compare", "ok"], slow


def test_a_right_kernel_reports_raw_samples_and_64_entries(call: Call) -> None:
    (made,) = call("measured", ["right"])
    assert len(made["samples_ns"]) == len(made["reference_ns"]) >= 2
    assert all(sample > 0 for sample in (*made["samples_ns"], *made["reference_ns"]))
    assert made["calls_per_sample"] >= 1
    assert len(made["sampled_entries"]) == 64
    assert all(-2 <= entry <= 2 for entry in made["sampled_entries"])


def test_a_device_that_is_lost_costs_one_candidate(call: Call) -> None:
    made = call("measured", ["right", "lost", "right"])
    assert [each["outcome"] for each in made] == ["ok", "run", "ok"]
    assert "device was lost" in made[1]["detail"]


def test_a_kernel_that_the_driver_does_not_compile_in_time_costs_one_failure(call: Call) -> None:
    """At first several are asked for at once and nobody is blamed; then each alone, once the driver
    has ended what was given up."""
    made = call("measured", ["right", "choking", "right"])
    assert [each["outcome"] for each in made] == ["ok", "compile", "ok"]
    assert "did not compile this kernel within 0.15 s" in made[1]["detail"]


def test_what_precedes_the_warm_runs_of_a_kernel_is_told(call: Call) -> None:
    """Its pipeline and its first run; a pipeline has one tier, and nothing is packed for it."""
    (made,) = call("measured", ["right"])
    told = made["preparation"]
    assert told["compile_ns"] > 0
    assert told["first_run_ns"] > 0
    assert (told["optimise_ns"], told["pack_ns"]) == (0, 0)


def test_a_reference_that_the_driver_does_not_compile_is_told_and_the_next_lease_measured(
    call: Call,
) -> None:
    found = call("unusableReference")
    (told,) = found["told"]
    assert told.startswith("choking: The GPU's driver did not compile this kernel within 0.15 s")
    assert "did not compile this kernel" in found["thrown"]
    assert found["next"] == ["ok"]


def test_a_kernel_beyond_its_budget_is_given_up_between_slices(call: Call) -> None:
    slow, right = call("measured", ["slow", "right"])
    assert (slow["outcome"], right["outcome"]) == ("timeout", "ok")


def test_a_lost_device_is_followed_by_another(call: Call) -> None:
    after = call("afterLoss")
    assert after["another"] is True
    assert "destroyed" in after["loss"]
    assert after["value"] == 4


def test_finalists_are_measured_against_each_other(call: Call) -> None:
    assert all(0.1 < time < 10 for time in call("measuredAgain"))


@pytest.mark.parametrize(("timestamps", "kind"), [(True, "timestamp"), (False, "wall")])
def test_more_calls_take_longer_by_either_clock(call: Call, timestamps: bool, kind: str) -> None:
    timed = call("timed", timestamps)
    assert timed["kind"] == kind
    assert timed["growth"] > 2, "sixteen times the calls, and whatever else the machine does"


def test_the_probe_ends_and_describes_the_adapter(call: Call) -> None:
    probed = call("probed")
    assert probed["rho"] == "r102-00000", "a processor has no bits that would stay"
    assert probed["bandwidthGbps"] == 0
    assert probed["peakGflops"] > 0.1
    assert probed["dispatchUs"] > 0
    assert "workgroup-memory-32k" in probed["features"]
    assert probed["elapsedMs"] < 30_000
