"""Products of bytes become workloads of their own, with weights of 8 bits.

    y[i, k] = whole(min(max(round(x[i, k] / s) + z, 0), 255))     words = quantise(x, s, z)
    p[i, j] = sum over k of (y[i, k] - z) * b[k, j]               c = matmul_u8i8(words, b, s, z, …)
    c[i, j] = real(p[i, j]) * (s * scales[j])

The left operand is any value of which each entry is known to be a byte, and so may be one that is
quantised by a scale which the network computes. A product of real numbers is one of bytes, too, if
it reads bytes that became real numbers, and weights that are multiples of a scale:

    x[i, k] = real(y[i, k] - z) * s
    c = matmul(x, w)

Scales that follow a product go into it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, isfinite, prod

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Expression,
    Function,
    Integer,
    Program,
    Read,
    Real,
    Reducer,
    Stage,
    number,
    parts,
)
from kernelzoo.domain.operators.integer_products import ACTIVATION_BITS, PER_WORD
from kernelzoo.domain.plan import PortDType
from kernelzoo.domain.workload import Workload
from services.tuner.graph.byte_workloads import EXACT, SIGNED, ByteWorkloads, Scales, both
from services.tuner.graph.edit import Edit, readers_of
from services.tuner.graph.formulas import (
    at_places,
    axes_of,
    inlined,
    node_of,
    plainly_read,
    reads,
    renamed,
    replaced,
    single_stage,
    size,
    stages_of,
)
from services.tuner.graph.graph import Graph, Node, View
from services.tuner.graph.multiples import multiples_of
from services.tuner.graph.places import Form, flat, remainder, viewed
from services.tuner.graph.quantised_values import BYTE, real_bytes, steps_of_bytes
from services.tuner.graph.steps import Multiply, steps_of

MIDDLE = 128
"""Signed bytes are moved by it."""
RANK = 2
MOST_REPEATED = 20
"""Parts of an expression that stands in a program four times, once for each byte of a word."""


def byte_products_named(graph: Graph) -> Graph:
    """Products of which the left operand is no value of known bytes stay what they are."""
    return _Naming(_sums_apart(graph)).finished()


def _sums_apart(graph: Graph) -> Graph:
    """Sums of products with constants, and what a program does to each, become two programs."""
    edit = Edit(graph)
    for node in graph.nodes:
        if not _ends_sums(node, graph):
            edit.nodes.append(node)
            continue
        sums, rest, *more = stages_of(node, edit.values)
        for each in more:
            rest = inlined(each, rest)
        name = edit.value(f"{node.output}.sums", DType.I32, sums.shape)
        apart = replace(rest, value=renamed(rest.value, {sums.name: name}))
        edit.nodes.append(node_of([replace(sums, name=name)], edit.values, node.label))
        edit.nodes.append(node_of([apart], edit.values, node.label))
    return edit.finished()


def _ends_sums(node: Node, graph: Graph) -> bool:
    if not isinstance(node.op, Program) or len(node.op.stages) == 1:
        return False
    sums, *rest = node.op.stages
    names = {each.name: name for each, name in zip(node.op.inputs, node.inputs, strict=True)}
    match sums:
        case Stage(
            value=Binary(BinaryOp.MUL, _, Read(tensor)), reducer=Reducer.SUM, dtype=DType.I32
        ):
            return names.get(tensor) in graph.constants and not any(each.reducer for each in rest)
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """Sums of (a − zero) · codes, a[m, k] of bytes `from` the least on and codes[k, n]."""

    node: Node
    a: str
    least: int
    zero: Read | int
    widest: int
    codes: NDArray[np.int32]

    @property
    def reach(self) -> int:
        """Returns a bound that no sum exceeds, as no a − zero exceeds the widest."""
        return self.widest * int(np.abs(self.codes).sum(axis=0).max())


class _Naming:
    """The graph so far. Sums that one program reads wait for it, as it may have their scales."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._edit = Edit(graph)
        self._makers = {node.output: node for node in graph.nodes}
        self._readers = readers_of(graph)
        self._waiting: dict[str, _Product] = {}
        self._bytes: dict[str, str] = {}
        self._words: dict[tuple[str, int], str] = {}
        self._made = ByteWorkloads(self._edit)

    def finished(self) -> Graph:
        for node in self._graph.nodes:
            self._add(node)
        return self._edit.finished()

    def _add(self, node: Node) -> None:
        edit = self._edit
        product = self._sums(node)
        if product is not None and self._has_one_reader(product):
            self._waiting[node.output] = product
        elif product is not None and product.reach < EXACT:
            sums = self._entered(product, Scales(row=np.ones(1, np.float32)))
            axes = axes_of(edit.values[node.output].shape)
            whole = Stage(node.output, axes, Cast(Read(sums, axes), DType.I32), dtype=DType.I32)
            self._enter(node_of([whole], edit.values, node.label))
        elif (real := self._real(node)) is not None:
            edit.nodes.append(real)
        elif isinstance(node.op, View) and node.inputs[0] in self._waiting:
            self._waiting[node.output] = self._waiting[node.inputs[0]]
        elif name := next((name for name in node.inputs if name in self._waiting), None):
            self._add_reader(node, name)
        else:
            edit.nodes.append(node)

    # Sums of products.

    def _sums(self, node: Node) -> _Product | None:
        """The product that a program of whole numbers is."""
        if not isinstance(node.op, Program) or len(node.op.stages) > 1:
            return None
        stage = node.op.output
        if stage.dtype is not DType.I32 or stage.reducer is not Reducer.SUM:
            return None
        if len(stage.axes) != RANK or len(stage.over) != 1:
            return None
        (i, j), (k,) = stage.axes, stage.over
        names = {each.name: name for each, name in zip(node.op.inputs, node.inputs, strict=True)}
        match stage.value:
            case Binary(BinaryOp.MUL, left, Read() as right):
                b = self._graph.constants.get(names[right.tensor])
            case _:
                return None
        zero: Read | int = 0
        match left:
            case Binary(BinaryOp.SUB, Read() as entry, Integer(value)):
                zero = value
            case Binary(BinaryOp.SUB, Read() as entry, Read(tensor, at)):
                zero = Read(names[tensor], at)
            case Read():
                entry = left
            case _:
                return None
        if b is None or not (self._lies(node, entry, i, k) and self._lies(node, right, k, j)):
            return None
        codes = b.reshape(number(k.extent), -1).astype(np.int32)
        return self._product(node, names[entry.tensor], zero, codes)

    @staticmethod
    def _lies(node: Node, entry: Read, row: Axis, column: Axis) -> bool:
        """Returns whether entries are read of a matrix, line after line."""
        assert isinstance(node.op, Program)
        shape = next(each.shape for each in node.op.inputs if each.name == entry.tensor)
        whole = number(row.extent) * number(column.extent) == prod(shape)
        return whole and flat(entry.at, shape) == flat(
            (row, column), (number(row.extent), number(column.extent))
        )

    def _product(
        self, node: Node, a: str, zero: Read | int, codes: NDArray[np.int32]
    ) -> _Product | None:
        """None for what is not of bytes, or of lines that are no whole words."""
        least, most = self._range(a)
        small = np.ptp(codes, axis=0).max() <= BYTE[1] and np.abs(codes).max() <= BYTE[1]
        if not small or codes.shape[0] % PER_WORD or most - least > BYTE[1]:
            return None
        if isinstance(zero, Read) and prod(self._edit.values[zero.tensor].shape) > 1:
            return None
        start = SIGNED[0] if least < 0 else 0
        fits = start <= least and most <= start + BYTE[1]
        if not fits:
            return None
        lowest, highest = (zero, zero) if isinstance(zero, int) else self._range(zero.tensor)
        widest = max(most - lowest, highest - least)
        return _Product(node=node, a=a, least=start, zero=zero, widest=widest, codes=codes)

    def _range(self, name: str) -> tuple[int, int]:
        """The least and the largest integer that a value can have."""
        port = next((port for port in self._graph.inputs if port.value == name), None)
        if port is not None:
            return BYTE if port.dtype is PortDType.UINT8 else DType.I32.value_range
        maker = self._makers.get(name)
        stage = None if maker is None else single_stage(maker, self._edit.values)
        return DType.I32.value_range if stage is None else self._range_of(stage.value)

    def _range_of(self, value: Expression) -> tuple[int, int]:
        match value:
            case Read(tensor) if self._edit.values[tensor].dtype is DType.I32:
                return self._range(tensor)
            case Cast(Call(Function.ROUND, real)) | Cast(real):
                return _bounds_of(real)
            case Binary(BinaryOp.ADD, Cast() as steps, Integer(start)):
                least, most = self._range_of(steps)
                return least + start, most + start
        return DType.I32.value_range

    def _has_one_reader(self, product: _Product) -> bool:
        """Returns whether one program reads the sums, as real numbers alone."""
        readers = self._readers[product.node.output]
        maker = self._makers.get(next(iter(readers))) if len(readers) == 1 else None
        stage = None if maker is None else single_stage(maker, self._edit.values)
        if stage is None:
            return False
        read = {each for each in reads([stage]) if self._root(each.tensor) == product.node.output}
        value = stage.value
        for each in read:
            value = replaced(value, Cast(each), Real(0.0))
        return not read & set(parts(value))

    def _root(self, name: str) -> str:
        """Returns the value that this one is a view of."""
        while (maker := self._makers.get(name)) and isinstance(maker.op, View):
            (name,) = maker.inputs
        return name

    def _add_reader(self, node: Node, name: str) -> None:
        """Adds the product that a program reads, with its scales, and the rest of the program."""
        edit, product = self._edit, self._waiting[name]
        stage = single_stage(node, edit.values)
        assert stage is not None
        shape = edit.values[name].shape
        placeholder = "\nsums"
        value = stage.value
        for read in [each for each in reads([stage]) if each.tensor == name]:
            value = replaced(value, Cast(read), Read(placeholder, read.at))
        starts = {part for part in parts(value) if _reads(part, placeholder)}
        (start, *others) = starts
        done: Expression = start
        scales = Scales(row=np.ones(1, np.float32))
        entry = flat(stage.axes, stage.shape)
        assert isinstance(start, Read)
        if not others and prod(shape) == prod(stage.shape) and flat(start.at, shape) == entry:
            done, scales = self._scaled(value, start, entry, product.codes.shape[1])
        made = edit.shaped(self._entered(product, scales), shape)
        left = replaced(value, done, start)
        for each in starts:
            assert isinstance(each, Read)
            left = replaced(left, each, Read(made, each.at))
        rest = plainly_read(replace(stage, value=left), edit)
        self._enter(node_of([rest], edit.values, node.label))

    def _enter(self, node: Node) -> None:
        """Adds a node in the place of the one that made its output."""
        self._makers[node.output] = node
        self._edit.nodes.append(node)

    def _scaled(
        self, value: Expression, start: Read, entry: Form, columns: int
    ) -> tuple[Expression, Scales]:
        """The scales that follow a product, and the expression up to them."""
        done: Expression = start
        scales = Scales(row=np.ones(1, np.float32))
        column = remainder(entry, columns)
        for step in steps_of(value, start):
            found = None
            if isinstance(step, Multiply):
                operand = Real(step.operand) if isinstance(step.operand, float) else step.operand
                found = self._factors(operand, column, columns)
            together = None if found is None else both(scales, found)
            if together is None:
                break
            done, scales = step.whole, together
        return done, scales

    def _factors(self, value: Expression, column: Form, columns: int) -> Scales | None:
        """An expression as a product of constants of each column and at most one number of the
        network; None for any other."""
        match value:
            case Real(number):
                return Scales(row=np.array([number], np.float32))
            case Binary(BinaryOp.MUL, left, right):
                one, two = (self._factors(each, column, columns) for each in (left, right))
                return None if one is None or two is None else both(one, two)
            case Read(tensor, at):
                return self._read_factors(tensor, at, column, columns)
        return None

    def _read_factors(
        self, tensor: str, at: Sequence[Expression], column: Form, columns: int
    ) -> Scales | None:
        held = self._edit.values[tensor]
        if held.dtype is not DType.F32:
            return None
        in_columns = held.elements == columns and flat(at, held.shape) == column
        constant = self._graph.constants.get(tensor)
        if constant is not None and (in_columns or held.elements == 1):
            return Scales(row=constant.reshape(-1).astype(np.float32))
        maker = self._makers.get(self._root(tensor))
        stage = None if maker is None else single_stage(maker, self._edit.values)
        if constant is None and stage is not None and (in_columns or held.elements == 1):
            found = self._factors(stage.value, flat(stage.axes, stage.shape), columns)
            if found is not None and found.number is not None:
                return found
        if held.elements == 1:
            return Scales(number=tensor, row=np.ones(1, np.float32))
        return None

    # Products of real numbers.

    def _real(self, node: Node) -> Node | None:
        """The product of bytes that one of real numbers is, which read bytes times a scale."""
        if not isinstance(node.op, Workload) or node.op.epilogue:
            return None
        name = node.op.operator.name
        weights = self._graph.constants.get(node.inputs[1]) if len(node.inputs) == 2 else None
        if name not in ("matmul", "matmul_nt") or weights is None:
            return None
        read = self._real_bytes(node.inputs[0])
        if read is None:
            return None
        a, zero, scale = read
        plain = np.asarray(weights.T if name == "matmul_nt" else weights, np.float32)
        found = multiples_of(plain)
        product = None if found is None else self._product(node, a, zero, found.codes)
        if found is None or product is None or product.reach > DType.I32.value_range[1]:
            return None
        return self._workload(product, Scales(number=scale, row=found.scales), node.output)

    def _real_bytes(self, name: str) -> tuple[str, Read | int, str] | None:
        """The bytes, the zero point and the scale, a value of one entry, that real numbers are made
        of."""
        maker = self._makers.get(self._root(name))
        stage = None if maker is None else single_stage(maker, self._edit.values)
        found = None if stage is None else real_bytes(stage.value)
        if found is None or found.scale is None:
            return None
        assert stage is not None
        held, zero, scale = found.held, found.zero, self._made.scale(found.scale)
        if scale is None:
            return None
        least, most = self._range_of(held)
        if most - least > BYTE[1]:
            return None
        if stage.name not in self._bytes:
            own = self._edit.value(f"{stage.name}.bytes", DType.I32, stage.shape)
            whole = replace(stage, name=own, value=held, dtype=DType.I32)
            self._enter(node_of([whole], self._edit.values, ""))
            self._bytes[stage.name] = own
        return self._bytes[stage.name], zero, scale

    # What is made.

    def _entered(self, product: _Product, scales: Scales) -> str:
        """The name of the sums as real numbers times their scales."""
        m = self._edit.values[product.node.output].elements // product.codes.shape[1]
        name = self._edit.value(product.node.output, DType.F32, (m, product.codes.shape[1]))
        self._edit.nodes.append(self._workload(product, scales, name))
        return name

    def _workload(self, product: _Product, scales: Scales, output: str) -> Node:
        words = self._words_of(product, product.codes.shape[0] // PER_WORD)
        zero = self._zero_of(product)
        label = product.node.output
        return self._made.product(
            words, product.codes, zero, scales, output, label, product.node.label
        )

    def _zero_of(self, product: _Product) -> str:
        """The zero point of the bytes from 0 on."""
        edit, zero = self._edit, product.zero
        if isinstance(zero, int):
            return self._made.one(np.int32(zero - product.least))
        if not product.least:
            return self._made.one(zero.tensor)
        (axis,) = axes = axes_of((1,))
        name = edit.value(zero.tensor, DType.I32, (1,))
        value = Read(edit.shaped(zero.tensor, (1,)), (axis,)) - product.least
        edit.nodes.append(node_of([Stage(name, axes, value, dtype=DType.I32)], edit.values, ""))
        return name

    def _words_of(self, product: _Product, line: int) -> str:
        """Four bytes a word, from 0 on, in lines of so many words; made once for each value."""
        key = self._root(product.a), line
        if key not in self._words:
            maker = self._makers.get(key[0])
            stage = None if maker is None else single_stage(maker, self._edit.values)
            made = None if stage is None else self._quantised(stage, product.least)
            made = made or self._packed(key[0], stage, product.least)
            shape = (self._edit.values[made].elements // line, line)
            self._words[key] = self._edit.shaped(made, shape)
        return self._words[key]

    def _quantised(self, stage: Stage, least: int) -> str | None:
        """Words by the workload that rounds real numbers, where steps are counted from the least
        on; None where it is not what was done."""
        edit = self._edit
        found = steps_of_bytes(stage.value)
        if found is None or found.least != least:
            return None
        count = prod(stage.shape)
        scale, zero = self._made.scale(found.scale), self._made.zero(found.zero)
        if scale is None or zero is None:
            return None
        source = self._entries(replace(stage, value=found.real, dtype=DType.F32))
        words = edit.value(f"{stage.name}.words", DType.I32, (count // PER_WORD,))
        edit.nodes.append(self._made.quantised(edit.shaped(source, (count,)), scale, zero, words))
        return words

    def _entries(self, stage: Stage) -> str:
        """The value that the entries of a stage are, which is added if it is none yet."""
        edit = self._edit
        match stage.value:
            case Read(tensor, at) if flat(at, edit.values[tensor].shape) == flat(
                stage.axes, stage.shape
            ) and edit.values[tensor].elements == prod(stage.shape):
                return tensor
        name = edit.value(stage.name, DType.F32, stage.shape)
        edit.nodes.append(node_of([plainly_read(replace(stage, name=name), edit)], edit.values, ""))
        return name

    def _packed(self, root: str, stage: Stage | None, least: int) -> str:
        """Words by a program of shifts."""
        edit = self._edit
        value = edit.values[root]
        count = value.elements // PER_WORD
        name = edit.value(f"{root}.words", DType.I32, (count,))
        (word,) = axes = axes_of((count,))
        total: Expression | None = None
        for place in range(PER_WORD):
            at = viewed((word * PER_WORD + place,), (value.elements,), value.shape)
            entry: Expression = Read(root, at)
            if stage is not None and size(stage.value) <= MOST_REPEATED:
                entry = at_places(stage, at)
            entry = entry - least if least else entry
            shift = Integer(place * ACTIVATION_BITS)
            part = Binary(BinaryOp.SHIFT_LEFT, entry, shift) if place else entry
            total = part if total is None else Binary(BinaryOp.BIT_OR, total, part)
        assert total is not None
        made = plainly_read(Stage(name, axes, total, dtype=DType.I32), edit)
        edit.nodes.append(node_of([made], edit.values, ""))
        return name


def _bounds_of(real: Expression) -> tuple[int, int]:
    """The least and the largest integer that a real number becomes."""
    match real:
        case Binary(BinaryOp.MIN, Binary(BinaryOp.MAX, _, Real(least)), Real(most)) if isfinite(
            least
        ) and isfinite(most):
            # NaN becomes 0, and bounds may be in the wrong order.
            return min(0, floor(least), floor(most)), max(0, ceil(least), ceil(most))
    return DType.I32.value_range


def _reads(part: Expression, tensor: str) -> bool:
    return isinstance(part, Read) and part.tensor == tensor
