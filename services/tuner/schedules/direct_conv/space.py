"""The lite space of convolutions of a few channels: pixels and channels to a register tile."""

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.rules import BASE_TILES, FMA_TILES
from services.tuner.schedules.direct_conv.config import WasmDirectConvConfig, has_few_channels


def wasm_direct_conv_configs(workload: Workload) -> tuple[WasmDirectConvConfig, ...]:
    """Lists configs with fma first, each kind in the order of its tiles; none for other
    workloads."""
    if not has_few_channels(workload):
        return ()
    columns = workload.extent["x"]
    configs = (
        WasmDirectConvConfig(tile_x=min(tile_x, columns), tile_o=tile_o, fma=fma)
        for fma, tiles in ((True, FMA_TILES), (False, BASE_TILES))
        for tile_x, tile_o in tiles
    )
    return tuple(dict.fromkeys(each for each in configs if not each.fault(workload)))
