"""Looks up what a class of devices is served for some workloads, as the database has it now."""

from http import HTTPStatus
from typing import Any

from psycopg import AsyncConnection
from pydantic import ValidationError

from kernelzoo.domain.device import DeviceClass, Hardware
from kernelzoo.domain.gpu import space_of
from kernelzoo.domain.kinship import families
from kernelzoo.store import agents, chain, zoo
from kernelzoo.store.asynchronous import fetch_all, fetch_one
from services.gateway.chain import ServedWorkload, answers, choose
from services.gateway.problems import Refusal
from services.gateway.programs import Programs
from services.gateway.wire.sessions import HardwareWire


async def answer(
    db: AsyncConnection[Any],
    programs: Programs,
    workload_keys: list[str],
    device_class: DeviceClass,
    hardware: Hardware | None,
    quorum: int,
) -> list[ServedWorkload]:
    """Returns in the order of the keys the class's own entries; without one, what the chain
    offers."""
    rows = await fetch_all(db, zoo.served(workload_keys, device_class))
    workloads = await programs.workloads(db, workload_keys)
    lacking: list[str] = [row.workload_key for row in rows if row.entry_kernel is None]
    if not lacking:
        return answers(rows, workloads, {}, ())
    target = device_class.target.kind
    space, kin = space_of(target, hardware), families(hardware, target)
    offered = chain.offers(lacking, device_class, space=space, families=kin, quorum=quorum)
    chosen = choose(await fetch_all(db, offered))
    named = [offer.candidate_id for offer in chosen.values()]
    kernels = await fetch_all(db, chain.kernels(named, device_class))
    return answers(rows, workloads, chosen, kernels)


async def hardware_of(
    db: AsyncConnection[Any], told: str | None, device_id: str
) -> Hardware | None:
    """Returns the hardware as the page told it, or as an agent on this device did; None where
    nobody has. Raises Refusal unless what is told is what the device id was made from.
    """
    if told is None:
        return await fetch_one(db, agents.hardware(device_id))
    try:
        hardware = Hardware(**HardwareWire.model_validate_json(told).model_dump())
    except ValidationError as error:
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "hardware must be JSON as the `hardware` of POST /v1/sessions",
        ) from error
    if hardware.device_id != device_id:
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"this hardware has the device id {hardware.device_id}, not {device_id}; "
            "ask for its own class, or leave hardware out",
        )
    return hardware
