"""Plans read back from their bytes, and a faulty one is refused with the fault."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import (
    Chunk,
    Golden,
    GoldenPart,
    Need,
    OpenPlace,
    Plan,
    PlanAxis,
    PlanBatch,
    PlanBucket,
    PlanCall,
    PlanMemory,
    PlanState,
    PlanSum,
    PlanTensor,
    Port,
    PortDType,
    Weight,
    call_counts,
)
from kernelzoo.domain.plan_checking import validated
from kernelzoo.domain.weight_storage import Storage, StorageType
from kernelzoo.errors import InvalidInput
from kernelzoo.formats.plans import (
    plan_bytes,
    plan_document,
    plan_schemas,
    plan_sha256,
    read_plan,
    with_needs,
)

# y = relu(gather(table, ids) @ b) in two calls; the last writes where the first wrote.
PLAN = Plan(
    needs=(),
    model="tiny",
    dimensions={"sequence": 16, "batch": 1},
    inputs=(Port(name="ids", dtype=PortDType.INT64, shape=(1, 16), tensor=0),),
    outputs=(Port(name="y", dtype=PortDType.FLOAT32, shape=(1, 16, 8), tensor=4),),
    tensors=(
        PlanTensor(dtype=DType.I32, shape=(1, 16), at=0),
        PlanTensor(dtype=DType.F32, shape=(10, 8), weight=0),
        PlanTensor(dtype=DType.F32, shape=(16, 8), at=64),
        PlanTensor(dtype=DType.F32, shape=(128,), at=64),
        PlanTensor(dtype=DType.F32, shape=(1, 16, 8), at=64),
    ),
    weights=(Weight(name="table", dtype=DType.F32, shape=(10, 8), offset=0, bytes=320),),
    chunks=(Chunk(bytes=320, sha256="ab" * 32),),
    kernels=("gather:f32:m16k10n8", "relu:f32:n128"),
    calls=(
        PlanCall(kernel=0, tensors=(1, 0, 2), label="embed"),
        PlanCall(kernel=1, tensors=(3, 4), label="act"),
    ),
    memory=PlanMemory(weights=320, activations=576),
    golden=Golden(
        sha256="cd" * 32,
        inputs=(GoldenPart(name="ids", offset=0, bytes=64),),
        outputs=(GoldenPart(name="y", offset=64, bytes=512),),
        tolerance=1e-4,
    ),
)


def test_a_plan_reads_back_from_its_bytes_and_the_order_of_dimensions_does_not_matter() -> None:
    body = plan_bytes(PLAN)
    assert read_plan(body) == PLAN
    other = replace(PLAN, dimensions={"batch": 1, "sequence": 16})
    assert plan_sha256(other) == plan_sha256(PLAN)
    assert b'{"dtype":"f32","shape":[10,8],"weight":0}' in body


def test_a_plan_of_a_range_reads_back() -> None:
    assert read_plan(plan_bytes(RANGED)) == RANGED
    assert read_plan(plan_bytes(TWO_AXES)) == TWO_AXES
    batched = _batch()
    assert read_plan(plan_bytes(batched)) == batched
    assert [each.name for each in batched.ranges] == ["sequence", "batch"]


def test_a_plan_whose_weights_have_fewer_bits_reads_back() -> None:
    assert read_plan(plan_bytes(STORED)) == STORED
    assert STORED.file_bytes == 100


def _tensor(number: int, **changes: Any) -> Plan:
    tensors = list(PLAN.tensors)
    tensors[number] = replace(tensors[number], **changes)
    return replace(PLAN, tensors=tuple(tensors))


def _calls(*calls: tuple[int, tuple[int, ...]]) -> Plan:
    made = tuple(PlanCall(kernel=k, tensors=tensors, label="x") for k, tensors in calls)
    return replace(PLAN, calls=made)


STORAGE = Storage(type=StorageType.INT8, offset=0, bytes=120, axis=0)
STORED = replace(
    PLAN,
    needs=(Need.STORED,),
    weights=(replace(PLAN.weights[0], storage=STORAGE),),
    chunks=(Chunk(bytes=100, sha256="ab" * 32, inflated=160),),
)


WITH_STATE = replace(
    PLAN,
    needs=(Need.STATES,),
    tensors=(replace(PLAN.tensors[0], at=None, state=0), *PLAN.tensors[1:]),
    states=(PlanState(name="ids", dtype=DType.I32, shape=(1, 16)),),
)
SPARE = PlanTensor(dtype=DType.I32, shape=(1,), at=576)
RANGED = replace(
    PLAN,
    needs=(Need.RANGES,),
    inputs=(
        replace(PLAN.inputs[0], open=OpenPlace(place=1, axis=0, step=1)),
        Port(name="spare sequence", dtype=PortDType.INT32, shape=(1,), tensor=5),
    ),
    outputs=(replace(PLAN.outputs[0], open=OpenPlace(place=1, axis=0, step=1)),),
    tensors=(*PLAN.tensors, SPARE),
    kernels=("gather:f32:m16k10n8:spare=16", "relu:f32:n128:spare=16"),
    calls=(
        PlanCall(kernel=0, tensors=(1, 0, 5, 2), label="embed"),
        PlanCall(kernel=1, tensors=(3, 5, 4), label="act"),
    ),
    memory=PlanMemory(weights=320, activations=640),
    golden=replace(
        PLAN.golden,
        inputs=(*PLAN.golden.inputs, GoldenPart(name="spare sequence", offset=576, bytes=4)),
    ),
    axes=(PlanAxis(name="sequence", least=1, most=16, input=1),),
)


BUCKETED = replace(
    RANGED,
    needs=(Need.RANGES, Need.BUCKETS),
    inputs=(
        *RANGED.inputs,
        Port(name="spare sequence of 4", dtype=PortDType.INT32, shape=(1,), tensor=6),
    ),
    tensors=(*RANGED.tensors, replace(SPARE, at=640)),
    kernels=(*RANGED.kernels, "gather:f32:m4k10n8:spare=4"),
    memory=PlanMemory(weights=320, activations=704),
    golden=replace(
        RANGED.golden,
        inputs=(
            *RANGED.golden.inputs,
            GoldenPart(name="spare sequence of 4", offset=580, bytes=4),
        ),
    ),
    axes=(replace(RANGED.axes[0], buckets=(PlanBucket(most=4, input=2, kernels=((0, 2),)),)),),
)


OF_BOTH = PlanSum(factors=(1, 1), input=3)
TWO_AXES = replace(
    RANGED,
    needs=(Need.RANGES, Need.AXES),
    dimensions={"batch": 1, "past": 8, "sequence": 16},
    inputs=(
        *RANGED.inputs,
        Port(name="spare past", dtype=PortDType.INT32, shape=(1,), tensor=6),
        Port(name="spare past+sequence", dtype=PortDType.INT32, shape=(1,), tensor=7),
    ),
    outputs=(
        replace(
            RANGED.outputs[0],
            open=OpenPlace(place=1, axis=0, step=1),
            also_open=(OpenPlace(place=2, axis=1, step=1),),
        ),
    ),
    tensors=(*RANGED.tensors, replace(SPARE, at=640), replace(SPARE, at=704)),
    memory=PlanMemory(weights=320, activations=768),
    golden=replace(
        RANGED.golden,
        inputs=(
            *RANGED.golden.inputs,
            GoldenPart(name="spare past", offset=580, bytes=4),
            GoldenPart(name="spare past+sequence", offset=584, bytes=4),
        ),
    ),
    axes=(*RANGED.axes, PlanAxis(name="past", least=0, most=8, input=2)),
    sums=(OF_BOTH,),
)


def _also(**changes: Any) -> Plan:
    (output,) = TWO_AXES.outputs
    changed = replace(output, also_open=(replace(output.also_open[0], **changes),))
    return replace(TWO_AXES, outputs=(changed,))


def _sum(**changes: Any) -> Plan:
    return replace(TWO_AXES, sums=(replace(OF_BOTH, **changes),))


def _bucket(**changes: Any) -> Plan:
    (axis,) = BUCKETED.axes
    return replace(BUCKETED, axes=(replace(axis, buckets=(replace(axis.buckets[0], **changes),)),))


def test_a_run_of_the_largest_extents_calls_no_kernel_of_a_bucket() -> None:
    assert read_plan(plan_bytes(BUCKETED)) == BUCKETED
    assert call_counts(BUCKETED) == {BUCKETED.kernels[0]: 1, BUCKETED.kernels[1]: 1}


def _axis(**changes: Any) -> Plan:
    return replace(RANGED, axes=(replace(RANGED.axes[0], **changes),))


def _batch(**changes: Any) -> Plan:
    batch = PlanBatch(name="batch", least=1, most=8, inputs=(0,), outputs=(0,))
    sizes = {**RANGED.dimensions, "batch": 8}
    return replace(RANGED, dimensions=sizes, batch=replace(batch, **changes))


def _open(**changes: Any) -> Plan:
    (output,) = RANGED.outputs
    assert output.open is not None
    return replace(RANGED, outputs=(replace(output, open=replace(output.open, **changes)),))


FORMER = {
    1: PLAN,
    2: WITH_STATE,
    3: STORED,
    4: replace(PLAN, needs=(Need.F16,)),
    5: replace(WITH_STATE, needs=(Need.STATES, Need.F16)),
}


@pytest.mark.parametrize("number", FORMER)
def test_stored_plans_of_the_former_formats_are_read(number: int) -> None:
    """A zoo keeps the files of plans as they were sent."""
    plan = FORMER[number]
    _, _, rest = plan_bytes(plan).partition(b"],")
    body = b'{"format":%d,' % number + rest
    assert read_plan(body) == plan
    assert with_needs(body) == plan_bytes(plan)


def test_needs_are_independent_of_one_another() -> None:
    """A language model with a cache of f16 may have weights in fewer bits."""
    plan = replace(
        STORED,
        needs=(Need.STATES, Need.STORED, Need.F16),
        tensors=(WITH_STATE.tensors[0], *STORED.tensors[1:]),
        states=WITH_STATE.states,
    )
    assert read_plan(plan_bytes(plan)) == plan
    assert plan.has_f16
    assert plan.has_stored_weights


def test_a_schema_has_every_field_of_a_plan_and_lets_it_lack_those_that_are_omitted() -> None:
    schemas = plan_schemas()
    document = plan_document(PLAN)
    assert set(document) < set(schemas["Plan"]["properties"])
    assert {"needs", "calls"} <= set(schemas["Plan"]["required"])
    assert set(schemas["PlanTensor"]["required"]) == {"dtype", "shape"}
    assert schemas["PlanTensor"]["properties"]["at"] == {"type": "integer"}


def _stored(**changes: Any) -> Plan:
    weight = replace(PLAN.weights[0], storage=replace(STORAGE, **changes))
    return replace(STORED, weights=(weight,))


def _of_bytes(weights: int) -> Plan:
    return replace(
        PLAN,
        memory=PlanMemory(weights=weights, activations=576),
        chunks=(Chunk(bytes=weights, sha256="ab" * 32),),
    )


FAULTS = {
    "the plan needs 'sparse', which this version does not know: it knows states, stored, f16": (
        replace(PLAN, needs=("sparse",))
    ),
    "names its needs once, in the order states": replace(PLAN, needs=("f16", "stored")),
    "a plan names its needs once": replace(PLAN, needs=("f16", "f16")),
    "weight 0 (table) does not say how it is stored": replace(PLAN, needs=(Need.STORED,)),
    "weights are stored plain in plans that do not need 'stored'": replace(STORED, needs=()),
    "table) is stored in 80 bytes; int8 has 120": _stored(bytes=80),
    "table) is stored by axis 2; it has 2": _stored(axis=2),
    "table) has an axis if it is stored as int8": _stored(type=StorageType.F16),
    "table) is stored at no multiple of 64": _stored(offset=32),
    "weights end at byte 184 of a file of 160": _stored(offset=64),
    "inflates to nothing": replace(STORED, chunks=(replace(STORED.chunks[0], inflated=0),)),
    "chunks inflate to 1099511627776 bytes": replace(
        STORED, chunks=(replace(STORED.chunks[0], inflated=1 << 40),)
    ),
    "the weights have -64 bytes": replace(STORED, memory=replace(STORED.memory, weights=-64)),
    "a plan needs 'states' if it has some": replace(PLAN, needs=(Need.STATES,)),
    "dimension 'batch' has no extent from 1 to 3": _batch(most=3),
    "dimension 'batch' names port 2; there are 2": _batch(inputs=(0, 2)),
    "dimension 'batch' names ports out of order": _batch(inputs=(0, 0)),
    "dimension 'batch' is an axis of what is spare": _batch(inputs=(0, 1)),
    "dimension 'batch' is an axis of no input": _batch(inputs=()),
    "dimension 'batch' is a batch, and no other one": replace(_batch(), axes=(), needs=()),
    "a plan needs 'ranges' if it has axes with some": replace(RANGED, needs=()),
    "dimension 'length' has a range and is none of the plan's": _axis(name="length"),
    "dimension 'sequence' has no extent from -1 to 16": _axis(least=-1),
    "a plan needs 'axes' if several are open": replace(TWO_AXES, needs=(Need.RANGES,)),
    "a sum of dimensions is in a plan where fewer than two have a range": replace(
        RANGED, sums=(PlanSum(factors=(1,), input=1),)
    ),
    "a sum of dimensions has the factors [1]": _sum(factors=(1,)),
    "a sum of dimensions has the factors [0, 0]": _sum(factors=(0, 0)),
    "a sum of dimensions names input 4; there are 4": _sum(input=4),
    "a sum of dimensions has the input of another one": _sum(input=2),
    "input ids says what is spare and must be int32": _sum(input=0),
    "axis 1 of y is open twice for sequence": _also(place=1, axis=0),
    "y names axis 3; there are 3": _also(place=3),
    "axis 1 of y has fewer entries than past may leave out": _also(place=1),
    "y has no first open axis": replace(
        TWO_AXES, outputs=(replace(TWO_AXES.outputs[0], open=None),)
    ),
    "dimension 'sequence' has no extent from 1 to 15": _axis(most=15),
    "dimension 'sequence' names input 2; there are 2": _axis(input=2),
    "input ids says what is spare and must be int32[1]": _axis(input=0),
    "a plan needs 'buckets' if an axis has some": replace(BUCKETED, needs=(Need.RANGES,)),
    "buckets of sequence end at [16], which is not in order": _bucket(most=16),
    "a bucket of sequence names input 3; there are 3": _bucket(input=3),
    "a bucket of sequence has the input of another one": _bucket(input=1),
    "a bucket of sequence names kernel 3; there are 3": _bucket(kernels=((0, 3),)),
    "a bucket of sequence replaces a kernel twice": _bucket(kernels=((0, 2), (0, 1))),
    "no call uses kernel gather:f32:m4k10n8:spare=4": _bucket(kernels=()),
    "call 0 (embed) writes over what is spare of a bucket": replace(
        BUCKETED, tensors=(*BUCKETED.tensors[:6], replace(SPARE, at=64))
    ),
    "a plan needs 'axes' if several are open or one is not the first": _open(place=2),
    "axis 1 of y names dimension 1; there are 1": _open(axis=1),
    "axis 1 of y has fewer entries than sequence may leave out": _open(step=2),
    "model name '../etc' is malformed": replace(PLAN, model="../etc"),
    "dimension batch is -1": replace(PLAN, dimensions={"batch": -1}),
    "'matmul' is no key of a workload": replace(PLAN, kernels=("matmul", "relu:f32:n128")),
    "must have an address, or be a weight or a state": _tensor(2, weight=0),
    "tensor 2 is at 68, which is no multiple of 64": _tensor(2, at=68),
    "tensor 2 ends at byte 640 of 576": _tensor(2, at=128),
    "tensor 1 names weight 3; there are 1": _tensor(1, weight=3),
    "weight 0 differ in dtype or number": _tensor(1, shape=(9, 8)),
    "input ids and tensor 0 differ in dtype": _tensor(0, dtype=DType.F32),
    "call 0 (x) names kernel 7; there are 2": _calls((7, (1, 0, 2)), (1, (3, 4))),
    "call 1 (x) writes to a weight": _calls((0, (1, 0, 2)), (1, (3, 1))),
    "call 0 (x) names tensor 9; there are 5": _calls((0, (1, 9, 2)), (1, (3, 4))),
    "output y names tensor -1; there are 5": replace(
        PLAN, outputs=(replace(PLAN.outputs[0], tensor=-1),)
    ),
    "input ids has shape [-1, -16], which is empty": replace(
        PLAN, inputs=(replace(PLAN.inputs[0], shape=(-1, -16)),)
    ),
    "no call uses kernel relu:f32:n128": _calls((0, (1, 0, 2))),
    "call 0 (x) reads tensor 3, which was not written": _calls((1, (3, 4)), (0, (1, 0, 2))),
    "call 1 (act) writes over a part of tensor 3": _tensor(4, at=0),
    "output y reads tensor 4, which was not written or was overwritten": _calls(
        (1, (0, 0)), (0, (1, 0, 0))
    ),
    "a weight is listed that no call uses": _calls((1, (0, 2)), (0, (0, 0, 2))),
    "in the order of the file": replace(
        _calls((0, (1, 0, 2)), (0, (5, 0, 2)), (1, (3, 4))),
        tensors=(*PLAN.tensors, replace(PLAN.tensors[1], weight=1)),
        weights=(replace(PLAN.weights[0], offset=320), replace(PLAN.weights[0], name="other")),
        chunks=(Chunk(bytes=640, sha256="ab" * 32),),
        memory=PlanMemory(weights=640, activations=576),
    ),
    "chunks have 0 bytes; the weights have 320": replace(PLAN, chunks=()),
    "is no SHA-256": replace(PLAN, chunks=(Chunk(bytes=320, sha256="../"),)),
    "the model takes 68719477312 bytes; at most 68719476736 are possible": _of_bytes(1 << 36),
    "golden outputs must be the model's": replace(PLAN, golden=replace(PLAN.golden, outputs=())),
}


def test_a_plan_may_take_more_than_webassembly_addresses() -> None:
    validated(_of_bytes(1 << 33))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_plan_is_refused_with_the_fault(fault: str) -> None:
    validated(PLAN)
    with pytest.raises(InvalidInput) as refusal:
        validated(FAULTS[fault])
    assert fault in str(refusal.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"extra": 1}, "not canonical"),
        ({"calls": 3}, "this is no plan: Expected `array`"),
        ({"inputs": [{"name": "ids", "dtype": "int8", "shape": [1], "tensor": 0}]}, "no plan"),
    ],
)
def test_bytes_that_are_no_canonical_plan_are_refused(change: dict[str, Any], said: str) -> None:
    document = msgspec.json.decode(plan_bytes(PLAN))
    with pytest.raises(InvalidInput, match=said):
        read_plan(msgspec.json.encode(document | change))


ODD: tuple[Any, ...] = (
    *(-1, 0, 1, 3, -64, 64, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, 0.5, 1e308, True, None),
    *("", "\x00", "a" * 300, "f16", "i32", [], [-1], [-1, -16], {}),
)


def _places(part: Any, *before: str | int) -> Iterator[tuple[str | int, ...]]:
    """The way to each value of a document."""
    inner = part.items() if isinstance(part, dict) else enumerate(part)
    for name, each in inner:
        yield (*before, name)
        if isinstance(each, dict | list):
            yield from _places(each, *before, name)


@pytest.mark.parametrize("plan", [PLAN, STORED, RANGED], ids=["plain", "stored", "ranged"])
def test_a_plan_with_any_odd_value_is_refused_or_is_one(plan: Plan) -> None:
    """It raises nothing but InvalidInput, and a plan that is read has calls that can be counted."""
    body = plan_bytes(plan)
    for *way, name in _places(msgspec.json.decode(body)):
        for odd in ODD:
            document = part = msgspec.json.decode(body)
            for step in way:
                part = part[step]
            part[name] = odd
            with suppress(InvalidInput):
                assert call_counts(read_plan(msgspec.json.encode(document))).total() > 0
