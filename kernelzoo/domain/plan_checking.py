"""Checks that a plan that others wrote is sound: what it names is there, fits, and is written
before it is read. What its kernels compute is not looked at here."""

import re
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite, prod

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import (
    ALIGNMENT_BYTES,
    MEMORY_DTYPES,
    POSITION_WORDS,
    Chunk,
    Need,
    Plan,
    PlanAxis,
    PlanBatch,
    PlanDecoder,
    PlanEncoder,
    PlanSum,
    PlanTensor,
    Port,
    PortDType,
)
from kernelzoo.domain.weight_storage import refuse_storage
from kernelzoo.errors import InvalidInput

MAX_MEMORY_BYTES = 1 << 36
"""No browser gives a page so much. Whoever opens a plan compares it with the device's memory, and
with the 4 GiB that WebAssembly addresses."""
MAX_RANK = 8
MAX_EXTENT = 1 << 32
"""The largest that a dimension has."""


def validated(plan: Plan) -> Plan:
    """The plan. Raises InvalidInput with the first fault."""
    _refuse_needs(plan)
    _refuse_names(plan)
    _refuse_weights(plan)
    _refuse_states(plan)
    for number, tensor in enumerate(plan.tensors):
        _refuse_tensor(plan, number, tensor)
    _refuse_ports(plan)
    _refuse_ranges(plan)
    _refuse_calls(plan)
    _refuse_data_flow(plan)
    _refuse_golden(plan)
    _refuse_decoder(plan)
    return plan


_MODEL = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_KERNEL = re.compile(
    r"[a-z0-9_+]{1,64}:[a-z0-9_]{1,64}:[a-z0-9]{1,64}(:constant=[a-z0-9_+]{1,64})?"
    r"(:spare=[1-9][0-9]{0,8})?"
)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_NAME = 256
_MAX_DIMENSION = 128
_AT_MOST = f"at most {MAX_MEMORY_BYTES} are possible"


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise InvalidInput(fault)


def needs_axes(axes: Sequence[PlanAxis], ports: Iterable[Port]) -> bool:
    """Returns whether a plan has several open axes, or one that is not the first of several
    entries of an input or output."""
    return len(axes) > 1 or any(
        port.also_open or prod(port.shape[: port.open.place if port.open else 0]) > 1
        for port in ports
    )


def _refuse_needs(plan: Plan) -> None:
    known, ports = ", ".join(Need), (*plan.inputs, *plan.outputs)
    for need in plan.needs:
        _require(
            need in tuple(Need),
            f"the plan needs {need[:80]!r}, which this version does not know: it knows {known}",
        )
    ordered = tuple(need for need in Need if need in plan.needs)
    _require(plan.needs == ordered, f"a plan names its needs once, in the order {known}")
    stated = (Need.STATES in plan.needs) == bool(plan.states)
    _require(stated, "a plan needs 'states' if it has some, and else does not")
    encodes = plan.decoder is not None and plan.decoder.encoder is not None
    named = (Need.ENCODER in plan.needs) == encodes
    _require(named, "a plan needs 'encoder' if its decoder has one, and else does not")
    ranges = (Need.RANGES in plan.needs) == bool(plan.axes)
    _require(ranges, "a plan needs 'ranges' if it has axes with some, and else does not")
    buckets = (Need.BUCKETS in plan.needs) == any(axis.buckets for axis in plan.axes)
    _require(buckets, "a plan needs 'buckets' if an axis has some, and else does not")
    axes = (Need.AXES in plan.needs) == needs_axes(plan.axes, ports)
    _require(axes, "a plan needs 'axes' if several are open or one is not the first, else not")


def _refuse_names(plan: Plan) -> None:
    _require(
        bool(_MODEL.fullmatch(plan.model)),
        f"model name {plan.model[:80]!r} is malformed; use a-z, 0-9, '.', '_' and '-', at most 64",
    )
    for name, extent in plan.dimensions.items():
        _require(is_dimension_name(name), f"dimension {name[:80]!r} is no name")
        fits = 0 <= extent <= MAX_EXTENT
        _require(fits, f"dimension {name} is {extent}; it must be from 0 to {MAX_EXTENT}")
    for key in plan.kernels:
        _require(bool(_KERNEL.fullmatch(key)), f"kernel {key[:80]!r} is no key of a workload")
    _refuse_twice(plan.kernels, "kernel")
    labels = (call.label for call in plan.calls)
    for name in (*(weight.name for weight in plan.weights), *labels):
        _refuse_text(name)


def is_dimension_name(name: str) -> bool:
    """Returns whether an address can ask for a dimension. Exporters name dimensions by formulas,
    and in any script."""
    return 0 < len(name) <= _MAX_DIMENSION and name.isprintable() and name == name.strip()


def _refuse_text(name: str) -> None:
    fine = len(name) <= _MAX_NAME and name.isprintable()
    _require(fine, f"name {name[:80]!r} must be at most {_MAX_NAME} printable characters")


def _refuse_twice(names: Sequence[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        _require(name not in seen, f"{what} {name[:80]!r} is there twice")
        seen.add(name)


def _refuse_weights(plan: Plan) -> None:
    _require(plan.memory.weights >= 0, f"the weights have {plan.memory.weights} bytes")
    for number, weight in enumerate(plan.weights):
        what = f"weight {number} ({weight.name})"
        _refuse_shape(plan, what, weight.dtype, weight.shape)
        needed = weight.dtype.size_bytes * prod(weight.shape)
        _require(weight.bytes == needed, f"{what} has {weight.bytes} bytes; its shape has {needed}")
        aligned = weight.offset % ALIGNMENT_BYTES == 0
        _require(aligned, f"{what} is at {weight.offset}, which is no multiple of 64")
    plain = [(weight.name, weight.offset, weight.bytes) for weight in plan.weights]
    _refuse_overlap(plain, plan.memory.weights)
    for chunk in plan.chunks:
        _require(chunk.bytes > 0, "a chunk of weights is empty")
        _refuse_hash(chunk.sha256)
    if plan.has_stored_weights:
        _refuse_stored_weights(plan)
        return
    storage = any(weight.storage for weight in plan.weights)
    deflated = any(chunk.inflated is not None for chunk in plan.chunks)
    _require(
        not storage and not deflated, "weights are stored plain in plans that do not need 'stored'"
    )
    _require(
        plan.file_bytes == plan.memory.weights,
        f"chunks have {plan.file_bytes} bytes; the weights have {plan.memory.weights}",
    )


def _refuse_stored_weights(plan: Plan) -> None:
    placed = []
    for number, weight in enumerate(plan.weights):
        what, storage = f"weight {number} ({weight.name})", weight.storage
        if storage is None:
            raise InvalidInput(f"{what} does not say how it is stored")
        refuse_storage(what, storage, weight.dtype, weight.shape)
        _require(storage.offset % ALIGNMENT_BYTES == 0, f"{what} is stored at no multiple of 64")
        placed.append((weight.name, storage.offset, storage.bytes))
    sizes = [_inflated_bytes(chunk) for chunk in plan.chunks]
    fits = max(sum(sizes), plan.file_bytes) <= MAX_MEMORY_BYTES
    _require(fits, f"chunks inflate to {sum(sizes)} bytes; {_AT_MOST}")
    whole = all(size % ALIGNMENT_BYTES == 0 for size in sizes[:-1])
    _require(whole, "chunks, but for the last one, must inflate to multiples of 64 bytes")
    _refuse_overlap(placed, sum(sizes))
    order = sorted(plan.weights, key=lambda weight: weight.offset)
    stored = [weight.storage.offset for weight in order if weight.storage]
    _require(stored == sorted(stored), "plain and stored weights are in different orders")


def _inflated_bytes(chunk: Chunk) -> int:
    if chunk.inflated is None:
        return chunk.bytes
    _require(chunk.inflated > 0, "a chunk of weights inflates to nothing")
    return chunk.inflated


def _refuse_overlap(placed: Sequence[tuple[str, int, int]], file_bytes: int) -> None:
    """Names, offsets and bytes."""
    end = 0
    for name, offset, size in sorted(placed, key=lambda each: each[1]):
        _require(offset >= end, f"weight {name} overlaps another")
        end = offset + size
    _require(end <= file_bytes, f"weights end at byte {end} of a file of {file_bytes}")


def _refuse_states(plan: Plan) -> None:
    _refuse_twice([state.name for state in plan.states], "state")
    for number, state in enumerate(plan.states):
        _refuse_text(state.name)
        _refuse_shape(plan, f"state {number} ({state.name})", state.dtype, state.shape)


def _refuse_hash(text: str) -> None:
    _require(bool(_SHA256.fullmatch(text)), f"{text[:80]!r} is no SHA-256 in hexadecimal")


def _refuse_shape(plan: Plan, what: str, dtype: DType, shape: tuple[int, ...]) -> None:
    needed = {DType.F16: plan.has_f16, DType.I8: plan.has_i8}
    known = [each for each in MEMORY_DTYPES if needed.get(each, True)]
    _require(dtype in known, f"{what} is {dtype}; memory holds {' and '.join(known)}")
    _require(len(shape) <= MAX_RANK, f"{what} has more than {MAX_RANK} axes")
    _require(all(n >= 1 for n in shape), f"{what} has shape {list(shape)}, which is empty")


def _refuse_tensor(plan: Plan, number: int, tensor: PlanTensor) -> None:
    what = f"tensor {number}"
    _refuse_shape(plan, what, tensor.dtype, tensor.shape)
    places = (tensor.at, tensor.weight, tensor.state)
    placed = sum(place is not None for place in places) == 1
    _require(placed, f"{what} must have an address, or be a weight or a state")
    if tensor.state is not None:
        _refuse_index(what, "state", tensor.state, len(plan.states))
        state = plan.states[tensor.state]
        same = (state.dtype, state.size_bytes) == (tensor.dtype, tensor.size_bytes)
        _require(same, f"{what} and state {tensor.state} differ in dtype or number of entries")
    if tensor.weight is not None:
        _refuse_index(what, "weight", tensor.weight, len(plan.weights))
        weight = plan.weights[tensor.weight]
        same = (weight.dtype, weight.bytes) == (tensor.dtype, tensor.size_bytes)
        _require(same, f"{what} and weight {tensor.weight} differ in dtype or number of entries")
    if tensor.at is not None:
        aligned = tensor.at >= 0 and tensor.at % ALIGNMENT_BYTES == 0
        _require(aligned, f"{what} is at {tensor.at}, which is no multiple of 64")
        end, size = tensor.at + tensor.size_bytes, plan.memory.activations
        _require(end <= size, f"{what} ends at byte {end} of {size} bytes of activations")
    states = sum(state.size_bytes for state in plan.states)
    total = plan.memory.weights + plan.memory.activations + states
    _require(total <= MAX_MEMORY_BYTES, f"the model takes {total} bytes; {_AT_MOST}")


def _refuse_index(what: str, of: str, index: int, count: int) -> None:
    _require(0 <= index < count, f"{what} names {of} {index}; there are {count}")


def _refuse_ports(plan: Plan) -> None:
    for ports, what in ((plan.inputs, "input"), (plan.outputs, "output")):
        _refuse_twice([port.name for port in ports], what)
        for port in ports:
            _refuse_text(port.name)
            _refuse_index(f"{what} {port.name}", "tensor", port.tensor, len(plan.tensors))
            tensor = plan.tensors[port.tensor]
            real = all(extent >= 1 for extent in port.shape)
            _require(real, f"{what} {port.name} has shape {list(port.shape)}, which is empty")
            _require(
                (port.dtype.stored, prod(port.shape)) == (tensor.dtype, prod(tensor.shape)),
                f"{what} {port.name} and tensor {port.tensor} differ in dtype or number of entries",
            )
    for port in plan.inputs:
        least, most = port.rows or (0, 0)
        _require(least <= most, f"input {port.name} takes no integer from {least} to {most}")
        fed = plan.tensors[port.tensor].weight is None
        _require(fed, f"input {port.name} is a weight, which a page cannot write")


def _refuse_ranges(plan: Plan) -> None:
    for axis in plan.axes:
        what = f"dimension {axis.name[:80]!r}"
        known = axis.name in plan.dimensions
        _require(known, f"{what} has a range and is none of the plan's dimensions")
        ordered = 0 <= axis.least <= axis.most == plan.dimensions.get(axis.name)
        _require(ordered, f"{what} has no extent from {axis.least} to {axis.most}")
        _refuse_index(what, "input", axis.input, len(plan.inputs))
        told = plan.inputs[axis.input]
        _refuse_told(told)
        _refuse_buckets(plan, axis)
    for sum_ in plan.sums:
        _refuse_sum(plan, sum_)
    if plan.batch is not None:
        _refuse_batch(plan, plan.batch)
    for port in (*plan.inputs, *plan.outputs):
        _refuse_open(plan, port)
        _require(bool(port.open) or not port.also_open, f"{port.name} has no first open axis")


def _refuse_open(plan: Plan, port: Port) -> None:
    left: dict[int, int] = {}
    known: set[tuple[int, int]] = set()
    for open_ in port.open_places:
        what = f"axis {open_.place} of {port.name}"
        _refuse_index(what, "dimension", open_.axis, len(plan.axes))
        _refuse_index(port.name, "axis", open_.place, len(port.shape))
        axis = plan.axes[open_.axis]
        pair = (open_.place, open_.axis)
        _require(pair not in known, f"{what} is open twice for {axis.name}")
        known.add(pair)
        most = left.setdefault(open_.place, port.shape[open_.place])
        left[open_.place] = most - open_.step * (axis.most - axis.least)
        fits = open_.step >= 1 and left[open_.place] >= 0
        _require(fits, f"{what} has fewer entries than {axis.name} may leave out")


def _refuse_sum(plan: Plan, sum_: PlanSum) -> None:
    what = "a sum of dimensions"
    _require(len(plan.axes) > 1, f"{what} is in a plan where fewer than two have a range")
    fits = len(sum_.factors) == len(plan.axes) and all(each >= 0 for each in sum_.factors)
    _require(fits and any(sum_.factors), f"{what} has the factors {list(sum_.factors)}")
    _refuse_index(what, "input", sum_.input, len(plan.inputs))
    _refuse_told(plan.inputs[sum_.input])
    others = {number for axis in plan.axes for number in axis.inputs}
    others |= {each.input for each in plan.sums if each is not sum_}
    _require(sum_.input not in others, f"{what} has the input of another one")


def _refuse_told(told: Port) -> None:
    single = (told.dtype, told.shape, told.open) == (PortDType.INT32, (1,), None)
    _require(single, f"input {told.name} says what is spare and must be int32[1]")


def _refuse_buckets(plan: Plan, axis: PlanAxis) -> None:
    what = f"a bucket of {axis.name}"
    tops = [bucket.most for bucket in axis.buckets]
    ordered = tops == sorted(set(tops)) and all(axis.least <= top < axis.most for top in tops)
    _require(
        ordered, f"buckets of {axis.name} end at {tops}, which is not in order or not in range"
    )
    _require(len(set(axis.inputs)) == len(axis.inputs), f"{what} has the input of another one")
    for bucket in axis.buckets:
        _refuse_index(what, "input", bucket.input, len(plan.inputs))
        _refuse_told(plan.inputs[bucket.input])
        for pair in bucket.kernels:
            for number in pair:
                _refuse_index(what, "kernel", number, len(plan.kernels))
        replaced = [kernel for kernel, _ in bucket.kernels]
        _require(len(set(replaced)) == len(replaced), f"{what} replaces a kernel twice")


def _refuse_batch(plan: Plan, batch: PlanBatch) -> None:
    what = f"dimension {batch.name[:80]!r}"
    _require(bool(plan.axes), f"{what} is a batch, and no other one has a range")
    ordered = 1 <= batch.least <= batch.most == plan.dimensions.get(batch.name)
    _require(ordered, f"{what} has no extent from {batch.least} to {batch.most}")
    _require(not plan.told_inputs & {*batch.inputs}, f"{what} is an axis of what is spare")
    _require(bool(batch.inputs), f"{what} is an axis of no input")
    for numbers, ports in ((batch.inputs, plan.inputs), (batch.outputs, plan.outputs)):
        _require(numbers == tuple(sorted({*numbers})), f"{what} names ports out of order")
        for number in numbers:
            _refuse_index(what, "port", number, len(ports))
            port = ports[number]
            first = port.shape[:1] == (1,) and all(each.place > 0 for each in port.open_places)
            _require(first, f"{what} is not the first axis of {port.name}")


def _refuse_calls(plan: Plan) -> None:
    for number, call in enumerate(plan.calls):
        what = f"call {number} ({call.label})"
        _refuse_index(what, "kernel", call.kernel, len(plan.kernels))
        _require(bool(call.tensors), f"{what} has no output")
        for tensor in call.tensors:
            _refuse_index(what, "tensor", tensor, len(plan.tensors))
        output = plan.tensors[call.tensors[-1]]
        _require(output.weight is None, f"{what} writes to a weight")
        _require(output.state is None, f"{what} has a state as its output")
    called = {call.kernel for call in plan.calls} | {other for _, other in plan.bucket_kernels}
    for unused in set(range(len(plan.kernels))) - called:
        raise InvalidInput(f"no call uses kernel {plan.kernels[unused]}")
    for unused in set(range(len(plan.states))) - {tensor.state for tensor in _uses(plan)}:
        raise InvalidInput(f"no call uses state {plan.states[unused].name}")
    used = {tensor.weight for tensor in _uses(plan)} - {None}
    _require(len(used) == len(plan.weights), "a weight is listed that no call uses")
    offsets = [weight.offset for weight in plan.weights]
    _require(offsets == sorted(offsets), "weights must be in the order of the file")


def _uses(plan: Plan) -> Iterator[PlanTensor]:
    for call in plan.calls:
        yield from (plan.tensors[index] for index in call.tensors)
    yield from (plan.tensors[port.tensor] for port in plan.outputs)


Span = tuple[int, int]


def _refuse_data_flow(plan: Plan) -> None:
    """Each activation that is read must have been written, and not been overwritten since."""
    written: list[Span] = []
    for port in plan.inputs:
        what = f"input {port.name}"
        if plan.tensors[port.tensor].at is None:
            continue
        span = _span(plan.tensors[port.tensor])
        _require(not _met(written, span), f"{what} overlaps another input")
        written.append(span)
    told = [plan.inputs[bucket.input] for axis in plan.axes for bucket in axis.buckets]
    kept = [_span(plan.tensors[port.tensor]) for port in told]
    for number, call in enumerate(plan.calls):
        what = f"call {number} ({call.label})"
        *operands, output = (plan.tensors[index] for index in call.tensors)
        target = _span(output)
        _require(not _met(kept, target), f"{what} writes over what is spare of a bucket")
        for index, operand in zip(call.tensors, operands, strict=False):
            if operand.at is None:
                continue
            _refuse_unwritten(what, index, operand, written)
            place = _span(operand)
            apart = place == target or not _met([place], target)
            _require(apart, f"{what} writes over a part of tensor {index}, which it reads")
        written = [span for span in written if not _met([span], target)]
        written.append(target)
    for port in plan.outputs:
        tensor = plan.tensors[port.tensor]
        if tensor.at is not None:
            _refuse_unwritten(f"output {port.name}", port.tensor, tensor, written)


def _refuse_unwritten(what: str, index: int, tensor: PlanTensor, written: Sequence[Span]) -> None:
    start, end = _span(tensor)
    there = any(low <= start and end <= high for low, high in written)
    _require(there, f"{what} reads tensor {index}, which was not written or was overwritten")


def _span(tensor: PlanTensor) -> Span:
    start = tensor.at or 0
    return start, start + tensor.size_bytes


def _met(spans: Sequence[Span], span: Span) -> bool:
    return any(low < span[1] and span[0] < high for low, high in spans)


def _refuse_golden(plan: Plan) -> None:
    golden = plan.golden
    _refuse_hash(golden.sha256)
    fine = isfinite(golden.tolerance) and golden.tolerance > 0
    _require(fine, f"tolerance {golden.tolerance} of the golden outputs must be above 0")
    for parts, ports, what in (
        (golden.inputs, plan.inputs, "input"),
        (golden.outputs, plan.outputs, "output"),
    ):
        names = [part.name for part in parts]
        same = names == [port.name for port in ports]
        _require(same, f"golden {what}s must be the model's {what}s in their order")
        for part, port in zip(parts, ports, strict=True):
            needed = port.dtype.stored.size_bytes * prod(port.shape)
            _require(
                part.bytes == needed and part.offset >= 0 and part.offset % 4 == 0,
                f"golden {what} {part.name} must have {needed} bytes at a multiple of 4",
            )
            _require((part.off or 0) >= 0, f"golden {what} {part.name} has {part.off} entries off")


def _refuse_decoder(plan: Plan) -> None:
    decoder = plan.decoder
    if decoder is None:
        return
    states = ("token", 1), ("position", POSITION_WORDS), ("prompt", decoder.length)
    for name, entries in states:
        index = getattr(decoder, name)
        _refuse_index("the decoder", "tensor", index, len(plan.tensors))
        tensor = plan.tensors[index]
        fits = (tensor.dtype, prod(tensor.shape)) == (DType.I32, entries)
        _require(
            fits and tensor.state is not None,
            f"the decoder's {name} must be a state of {entries} i32",
        )
    for name, dtype, entries in (
        ("logits", DType.F32, decoder.vocabulary),
        ("chosen", DType.I32, 1),
    ):
        index = getattr(decoder, name)
        _refuse_index("the decoder", "tensor", index, len(plan.tensors))
        tensor = plan.tensors[index]
        fits = (tensor.dtype, prod(tensor.shape)) == (dtype, entries)
        _require(
            fits and tensor.at is not None,
            f"the decoder's {name} must be {entries} {dtype} that a call writes",
        )
    _require(decoder.rows >= 1, f"a block of the decoder has {decoder.rows} rows")
    _require(decoder.step >= 0, f"the decoder's tokens begin at call {decoder.step}")
    inside = decoder.step < decoder.head < len(plan.calls) - 1
    _require(inside, f"the decoder's head begins at call {decoder.head}; it is no call between")
    known = all(0 <= token < decoder.vocabulary for token in decoder.stop)
    _require(known, "the decoder stops at a token that is not in its vocabulary")
    fed = [port.tensor for port in plan.inputs]
    asked = [decoder.token, decoder.position, decoder.prompt]
    names = "token, position and prompt"
    if decoder.encoder is not None:
        _refuse_encoder(plan, decoder, decoder.encoder)
        asked += [decoder.encoder.source, decoder.encoder.spare]
        names = "token, position, prompt, source and spare"
    _require(fed == asked, f"a decoder's inputs are {names}, in this order")
    made = [port.tensor for port in plan.outputs]
    _require(made == [decoder.logits], "a decoder's output is its logits")


def _refuse_encoder(plan: Plan, decoder: PlanDecoder, encoder: PlanEncoder) -> None:
    for name in ("source", "spare"):
        index = getattr(encoder, name)
        _refuse_index("the encoder", "tensor", index, len(plan.tensors))
        _require(plan.tensors[index].state is not None, f"the encoder's {name} must be a state")
    _require(encoder.length >= 1, f"the encoder takes {encoder.length} places")
    source, spare = plan.tensors[encoder.source], plan.tensors[encoder.spare]
    single = (spare.dtype, prod(spare.shape)) == (DType.I32, 1)
    _require(single, "the encoder's spare must be a state of 1 i32")
    if encoder.vocabulary:
        fits = (source.dtype, prod(source.shape)) == (DType.I32, encoder.length)
        _require(fits, f"the encoder's source must be a state of {encoder.length} i32")
    else:
        fits = source.dtype is DType.F32 and len(source.shape) == 2
        _require(fits, "the encoder's source must be a state of f32 with bands and frames")
    _require(encoder.vocabulary >= 0, f"the encoder knows {encoder.vocabulary} tokens")
    _require(decoder.step >= 1, "the encoder has no call")
    for index in encoder.cache:
        _refuse_index("the decoder's cache", "tensor", index, len(plan.tensors))
        tensor = plan.tensors[index]
        _require(
            tensor.state is not None and tensor.shape[-2:-1] == (decoder.length,),
            f"tensor {index} of the decoder's cache must be a state with {decoder.length} places",
        )
    begins = 1 <= len(encoder.start) < decoder.length
    _require(begins, f"a text begins with {len(encoder.start)} tokens of {decoder.length}")
    named = (*encoder.start, *encoder.suppressed)
    known = all(0 <= token < decoder.vocabulary for token in named)
    _require(known, "the decoder begins with, or suppresses, a token that is not in its vocabulary")
