"""From a candidate to its programs, one for each dispatch, by the family of its operator.

Each family is a module of two: its config here, and beside it the loop nests that a config makes.
"""

from kernelzoo.domain.candidate import Candidate
from services.tuner.ir.nodes import Program
from services.tuner.webgpu.plain import plain_programs


def gpu_programs(candidate: Candidate) -> tuple[Program, ...]:
    """Raises InvalidSchedule and UnsupportedProgram as `compile_candidate` does."""
    return plain_programs(candidate)
