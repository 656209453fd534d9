"""From a candidate to its programs, one for each dispatch, by the family of its operator.

Each family is a module of two: its config here, and beside it the loop nests that a config makes.
"""

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators import Family
from services.tuner.ir.nodes import Program
from services.tuner.webgpu.contraction import TilesConfig
from services.tuner.webgpu.pixels import PixelsConfig
from services.tuner.webgpu.plain import plain_programs
from services.tuner.webgpu.rows import TeamConfig
from services.tuner.webgpu.sliding import sliding_programs
from services.tuner.webgpu.teams import teams_programs
from services.tuner.webgpu.tiles import tiles_programs
from services.tuner.webgpu.windows import contracts


def gpu_programs(candidate: Candidate) -> tuple[Program, ...]:
    """Raises InvalidSchedule and UnsupportedProgram as `compile_candidate` does."""
    workload = candidate.workload
    if contracts(workload) and TilesConfig.describes(candidate):
        return tiles_programs(workload, TilesConfig.of(candidate))
    if workload.operator.family is Family.ROWS and TeamConfig.describes(candidate):
        return teams_programs(workload, TeamConfig.of(candidate))
    if workload.operator.family is Family.CONVOLUTION and PixelsConfig.describes(candidate):
        return sliding_programs(workload, PixelsConfig.of(candidate))
    return plain_programs(candidate)
