"""The probe modules: current in the client, finite, and as long as they say."""

import re
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest

from services.tuner.microbench.probes import CHAINS, LANES, ROUNDS, Setting, suite
from services.tuner.microbench.typescript import typescript
from services.tuner.wasm.instructions import plain
from tests.unit.tuner.execution import PAGE_BYTES, Kernel

CLIENT = Path(__file__).parents[3] / "client" / "src" / "probe" / "modules.ts"
(FMA,) = suite()


def test_the_module_of_the_client_is_current() -> None:
    """Write it anew with `python -m services.tuner.microbench > client/src/probe/modules.ts`."""
    assert CLIENT.read_text() == typescript()


def test_the_client_gets_the_bytes_of_both_settings() -> None:
    bodies = [b64decode(text) for text in re.findall(r'"([A-Za-z0-9+/=]{80,})"', typescript())]
    assert bodies == [FMA.base.body, FMA.advanced.body]


def test_both_settings_count_the_same_work() -> None:
    flops = 2 * LANES * CHAINS * ROUNDS
    assert FMA.base.flops_per_iteration == FMA.advanced.flops_per_iteration == flops
    for setting, name, times in (
        (FMA.base, "f32x4.mul", CHAINS * ROUNDS),
        (FMA.base, "f32x4.add", CHAINS * ROUNDS + CHAINS - 1),
        (FMA.advanced, "f32x4.relaxed_madd", CHAINS * ROUNDS),
    ):
        assert setting.body.count(plain(name).encoding) == times


@pytest.mark.parametrize("setting", [FMA.base, FMA.advanced], ids=("base", "advanced"))
def test_a_probe_runs_its_range_and_stores_the_sum_that_rounding_keeps(setting: Setting) -> None:
    kernel = Kernel(setting.body, PAGE_BYTES)
    kernel.run(64, 5, 5)
    assert np.array_equal(kernel.values[16:20], np.full(4, CHAINS, np.float32))
    kernel.run(64, 10, 200_010)
    assert np.array_equal(kernel.values[16:20], np.full(4, CHAINS, np.float32))
    assert not kernel.values[:16].any()
    assert not kernel.values[20:].any()
