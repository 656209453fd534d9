"""Programs: the operator registers them, anybody reads what a key computes."""

from http import HTTPStatus

from fastapi import APIRouter

from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.workload import (
    UnknownProgram,
    Workload,
    is_program,
    workload_key,
)
from services.gateway import programs
from services.gateway.problems import Refusal, refuse_stranger
from services.gateway.state import Operator, Shared
from services.gateway.wire.model import KeyText
from services.gateway.wire.programs import ProgramRequest, ProgramWire

router = APIRouter(tags=["tuning"])


@router.post("/v1/programs", status_code=HTTPStatus.CREATED)
async def add_program(body: ProgramRequest, state: Shared, operated: Operator) -> ProgramWire:
    """Register what no operator names. Its key is then a workload's as any other. For the operator
    alone: what is stored is compiled and evaluated.
    """
    refuse_stranger(operated=operated)
    workload = Workload.of_program(body.name, parsed(body.text))
    async with state.pool.connection() as db:
        await programs.register(db, (workload,))
    return _described(workload)


@router.get("/v1/programs/{workload}")
async def get_program(workload: KeyText, state: Shared) -> ProgramWire:
    """Show what the workload of a program computes."""
    key = workload_key(workload)
    if not is_program(key):
        raise Refusal(HTTPStatus.NOT_FOUND, f"{key} is of an operator; see docs/operators.md")
    async with state.pool.connection() as db:
        try:
            found = await state.programs.workloads(db, (key,))
        except UnknownProgram as error:
            raise Refusal(HTTPStatus.NOT_FOUND, str(error)) from error
    return _described(found[key])


def _described(workload: Workload) -> ProgramWire:
    return ProgramWire(workload=workload.key, text=str(workload.program), flops=workload.flops)
