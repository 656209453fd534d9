"""Lists the families of this folder, and tells which programs each takes."""

from services.tuner.schedules.base.family import wasm_family, with_javascript
from services.tuner.schedules.base.iteration import contraction
from services.tuner.schedules.prefetching_matmul.space import wasm_prefetching_matmul_configs

FAMILIES = with_javascript(
    wasm_family("prefetching_matmul", contraction, wasm_prefetching_matmul_configs, spares=True)
)
