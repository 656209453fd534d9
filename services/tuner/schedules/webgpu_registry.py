"""From a candidate to its programs, one for each dispatch, by the family of its operator.

Each family is a module of two: its config here, and beside it the loop nests that a config makes.
"""

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators import Family
from services.tuner.ir.nodes import Program
from services.tuner.schedules.conv.implicit_gemm import contracts
from services.tuner.schedules.conv.webgpu import sliding_programs
from services.tuner.schedules.conv.webgpu_config import PixelsConfig
from services.tuner.schedules.elementwise.webgpu import plain_programs
from services.tuner.schedules.elementwise.webgpu_transpose import SquareConfig, square_programs
from services.tuner.schedules.matmul.webgpu import tiles_programs
from services.tuner.schedules.matmul.webgpu_config import TilesConfig
from services.tuner.schedules.reduction.webgpu import teams_programs
from services.tuner.schedules.reduction.webgpu_config import TeamConfig


def gpu_programs(candidate: Candidate) -> tuple[Program, ...]:
    """Raises InvalidSchedule and UnsupportedProgram as `compile_candidate` does."""
    workload = candidate.workload
    if contracts(workload) and TilesConfig.describes(candidate):
        return tiles_programs(workload, TilesConfig.of(candidate))
    if workload.operator.family is Family.ROWS and TeamConfig.describes(candidate):
        return teams_programs(workload, TeamConfig.of(candidate))
    if workload.operator.family is Family.CONVOLUTION and PixelsConfig.describes(candidate):
        return sliding_programs(workload, PixelsConfig.of(candidate))
    if workload.operator.name == "transpose" and SquareConfig.describes(candidate):
        return square_programs(workload, SquareConfig.of(candidate))
    return plain_programs(candidate)
