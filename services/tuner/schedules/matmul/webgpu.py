"""The loop nest of a contraction for GPUs: blocks for workgroups, tiles for threads."""

from dataclasses import replace
from functools import reduce

from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    Frame,
    binary,
    loop,
    number,
    under,
    unrolled,
    vector,
)
from services.tuner.ir.kinds import LANES, BinaryOp, Element, LoopKind, Scope
from services.tuner.ir.nodes import (
    Allocate,
    Block,
    Bound,
    Buffer,
    Expression,
    Load,
    Program,
    Statement,
    Store,
)
from services.tuner.passes.threads import Threads, threaded
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.conv.implicit_gemm import product_extents, window_of
from services.tuner.schedules.matmul.webgpu_config import Cache, TilesConfig
from services.tuner.schedules.matmul.webgpu_inner import inner_of
from services.tuner.schedules.matmul.webgpu_layers import added, layers_of
from services.tuner.schedules.matmul.webgpu_operands import operands_of
from services.tuner.schedules.matmul.webgpu_place import Place, place_of
from services.tuner.tir.products import Product, product_of

ADDING_THREADS = 64


def tiles_programs(workload: Workload, config: TilesConfig) -> tuple[Program, ...]:
    """One dispatch, and one that adds partial sums up where workgroups share them."""
    extents = product_extents(workload)
    window = window_of(workload, LANES if config.cache is Cache.NONE else config.block_k)
    product = replace(product_of(extents), parameters=parameters_of(workload))
    shared = _partial_sums(extents, config)
    frame = Frame()
    place = place_of(frame, extents, config)
    operands = operands_of(product.parameters, extents, place.batch, window)
    sums = Buffer(
        name="sums", scope=Scope.LOCAL, element=Element.F32, size=config.tile_m * config.tile_n
    )
    inner = inner_of(frame, config, operands, place, sums)
    stores = _stores(frame, product, config, place, sums, shared)
    body = (*_zeros(sums), *inner.block, *added(config, place, sums, stores))
    for buffer in (sums, *inner.local):
        body = (Allocate(buffer=buffer, body=body),)
    block: Block = (loop("thread", config.threads, LoopKind.THREAD_INDEX, frame.around(body)),)
    for buffer in dict.fromkeys((*inner.workgroup, *layers_of(config))):
        block = (Allocate(buffer=buffer, body=block),)
    main = Program(
        parameters=(*product.parameters, *shared),
        body=loop("group", config.workgroups(extents), LoopKind.RANGE, block),
    )
    return (main, *(_adding(product, config, partial) for partial in shared))


def _partial_sums(extents: Extents, config: TilesConfig) -> tuple[Buffer, ...]:
    """Of every part of k, one matrix after another; none where there is one part."""
    if config.split_k == 1:
        return ()
    size = config.scratch_bytes(extents) // Element.F32.size_bytes
    return (Buffer(name="partial", scope=Scope.GLOBAL, element=Element.F32, size=size),)


def _zeros(sums: Buffer) -> Block:
    store = Store(buffer=sums, index=Affine.of(0, {"lane": 1, "four": LANES}), value=number(0))
    return (unrolled("four", sums.size // LANES, vector("lane", store)),)


def _stores(
    frame: Frame,
    product: Product,
    config: TilesConfig,
    place: Place,
    sums: Buffer,
    shared: tuple[Buffer, ...],
) -> Block:
    """Every entry of the thread's tile that exists; only blocks at an edge ask for it."""
    extents, lane = product.extents, Affine.variable("lane")
    found: list[Statement] = []
    for i in range(config.tile_m):
        row = place.row.plus(place.own_row(i))
        columns: list[Statement] = []
        for j in range(config.tile_n // LANES):
            column = place.column.plus(place.own_column(LANES * j))
            at = (place.batch, row, column.plus(lane))
            value = Load(
                buffer=sums, index=lane.plus(Affine(constant=i * config.tile_n + LANES * j))
            )
            if shared:
                count = extents.m * extents.n * max(1, extents.batch)
                here = place.part.times(count).plus(product.place(at))
                store = Store(buffer=shared[0], index=here, value=value)
            else:
                store = product.stored(at, value)
            columns += _existing(frame, column, extents.n, store)
        bounds = [Bound(index=row, limit=extents.m)] if frame.most(row) >= extents.m else []
        found += under(bounds, tuple(columns))
    return tuple(found)


def _existing(frame: Frame, column: Affine, extent: int, store: Store) -> Block:
    """Four lanes of a row, as far as they are columns: all or none where whole vectors exist."""
    if frame.most(column) + LANES <= extent:
        return (vector("lane", store),)
    if extent % LANES == 0:
        return under((Bound(index=column, limit=extent),), (vector("lane", store),))
    edge = Bound(index=column.plus(Affine.variable("lane")), limit=extent)
    return (vector("lane", *under((edge,), (store,))),)


def _adding(product: Product, config: TilesConfig, partial: Buffer) -> Program:
    """c from the parts of its sums."""
    extents = product.extents
    sizes = (max(1, extents.batch), extents.m, extents.n)
    names = ("batch", "m", "n")
    at = tuple(
        Affine.variable(name) if size > 1 else Affine(constant=0)
        for name, size in zip(names, sizes, strict=True)
    )
    entry = product.place(at)
    count = sizes[0] * sizes[1] * sizes[2]
    parts: list[Expression] = [
        Load(buffer=partial, index=entry.plus(Affine(constant=part * count)))
        for part in range(config.split_k)
    ]
    value = reduce(lambda left, right: binary(BinaryOp.ADD, left, right), parts)
    block: Block = (product.stored(at, value),)
    for name, size in reversed(list(zip(names, sizes, strict=True))):
        if size > 1:
            block = (loop(name, size, LoopKind.SERIAL, block),)
    whole = Program(
        parameters=(*product.parameters, partial), body=loop("whole", 1, LoopKind.RANGE, block)
    )
    return threaded(whole, Threads(count=ADDING_THREADS, vectors=1, wide=True))
