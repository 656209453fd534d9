"""From a candidate to its programs, one for each dispatch, by the family of its operator.

Each family is a module of two: its config here, and beside it the loop nests that a config makes.
"""

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators import Family
from services.tuner.extents import Extents, is_pointwise
from services.tuner.ir.nodes import Program
from services.tuner.webgpu.contraction import TilesConfig
from services.tuner.webgpu.plain import plain_programs
from services.tuner.webgpu.rows import TeamConfig
from services.tuner.webgpu.teams import teams_programs
from services.tuner.webgpu.tiles import tiles_programs


def gpu_programs(candidate: Candidate) -> tuple[Program, ...]:
    """Raises InvalidSchedule and UnsupportedProgram as `compile_candidate` does."""
    workload = candidate.workload
    contracts = workload.operator.family is Family.CONTRACTION or is_pointwise(workload)
    if contracts and TilesConfig.describes(candidate):
        return tiles_programs(Extents.of(workload), TilesConfig.of(candidate))
    if workload.operator.family is Family.ROWS and TeamConfig.describes(candidate):
        return teams_programs(workload, TeamConfig.of(candidate))
    return plain_programs(candidate)
