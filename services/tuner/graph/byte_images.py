"""Images of bytes go from layer to layer as words of four channels, and convolutions multiply them.

    q [1, 56, 56, 64]  whole(min(max(round(x / s) + z, 0), 255))
    r                  real(q - z) * s
    c [1, 28, 28, 32]  conv2d(r, b), windows of 3x3 with stride 2

    w [1, 56, 56, 16]  words of four of q each
    p [784, 144]       the words under each window
    c [784, 32]        matmul_u8i8(p, codes of b, s, z, …)

What reads a few such images entry by entry and quantises what it makes of them, as a sum of two
does, is one program from words to words. Outside of an image its zero point stands. Whatever else
reads an image of bytes reads it as it was, unpacked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Call,
    Cast,
    Choice,
    Comparison,
    Expression,
    Function,
    Integer,
    Read,
    Stage,
    bits,
    number,
    parts,
)
from kernelzoo.domain.operators.integer_products import ACTIVATION_BITS, PER_WORD
from kernelzoo.domain.operators.quantisation import word_of
from kernelzoo.domain.workload import Workload
from services.tuner.graph.byte_workloads import (
    SIGNED,
    ByteWorkloads,
    Requantised,
    Scales,
    Sums,
    both,
)
from services.tuner.graph.edit import Edit
from services.tuner.graph.formulas import (
    at_places,
    axes_of,
    inlined,
    node_of,
    plainly_read,
    reads,
    replaced,
    single_stage,
    size,
)
from services.tuner.graph.graph import Graph, Node, View
from services.tuner.graph.multiples import multiples_of
from services.tuner.graph.quantised_values import BYTE, RealBytes, real_bytes, steps_of_bytes
from services.tuner.graph.steps import EntryStep, Row, affine_of, operand_of, steps_of

RANK = 4
MOST_REPEATED = 40
"""Parts of an expression that stands in a program four times, once for each byte of a word."""
MOST_LOOKED_THROUGH = 80
"""Parts of an expression that is looked through."""
OVER_ALL, APART = "conv2d", "depthwise_conv2d"
"""Convolutions over all channels, and of each by itself."""
BLOCK = 16
"""Kernels of bytes take channels that are kept apart so many at a time."""


def byte_images_named(graph: Graph) -> Graph:
    """A graph without convolutions that read bytes stays as it is."""
    return _Naming(graph).finished()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Image:
    """`words`: i32[b, h, w, c / 4], at least one for each pixel, of bytes that are less by `least`
    than integers of the network."""

    words: str
    least: int
    channels: int


class _Naming:
    """The graph so far."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._edit = Edit(graph)
        self._made = ByteWorkloads(self._edit)
        self._makers = {node.output: node for node in graph.nodes}
        self._images: dict[str, _Image] = {}
        self._sums: dict[str, tuple[Node, Sums]] = {}
        self._whole: set[str] = set()
        self._integers: dict[str, str] = {}

    def finished(self) -> Graph:
        if not any(is_convolution(node) for node in self._graph.nodes):
            return self._graph
        for node in self._graph.nodes:
            if not (self._quantises(node) or self._convolves(node) or self._is_whole(node)):
                self._edit.nodes.append(node)
        return self._edit.finished()

    # Images that are quantised.

    def _quantises(self, node: Node) -> bool:
        """Adds the words of an image, and the image as it was for whoever reads single bytes."""
        edit = self._edit
        stage = single_stage(node, edit.values)
        if stage is None or stage.dtype is not DType.I32 or len(stage.shape) != RANK:
            return False
        channels = stage.shape[-1]
        steps = steps_of_bytes(stage.value)
        if steps is None or (channels % PER_WORD and channels > PER_WORD):
            return False
        whole = self._looked_through(stage)
        inner = steps_of_bytes(whole.value)
        assert inner is not None
        seen = [each for each in reads([whole]) if each.tensor in self._images]
        if words := self._words_of_sums(node, whole):
            pass
        elif channels % PER_WORD:
            words = self._narrow_words(whole, inner.least, inner.zero)
        elif seen and size(whole.value) <= MOST_REPEATED and self._has_one_place(whole, seen):
            words = self._words_of_words(whole, inner.least)
        else:
            words = self._rounded_words(stage)
        if not words:
            return False
        self._images[node.output] = _Image(words=words, least=steps.least, channels=channels)
        if channels % PER_WORD:
            edit.nodes.append(node)
        else:
            self._unpack(node, self._images[node.output])
        return True

    def _looked_through(self, stage: Stage) -> Stage:
        """The stage with what it reads entry by entry in the place of each read, down to images of
        bytes and to what no program makes."""
        values = self._edit.values
        while True:
            found = None
            for read in reads([stage]):
                maker = self._makers.get(read.tensor)
                if maker is None or read.tensor in self._images or read.tensor in self._sums:
                    continue
                source = single_stage(maker, values)
                if source is not None and (prod(source.shape) > 1 or _is_cast(source)):
                    made = inlined(stage, source)
                    if size(made.value) <= MOST_LOOKED_THROUGH:
                        found = made
                        break
            if found is None:
                return stage
            stage = found

    @staticmethod
    def _has_one_place(stage: Stage, seen: Iterable[Read]) -> bool:
        """Returns whether images are read at whole words along the channels of the stage."""
        return all(read.at[-1] == stage.axes[-1] for read in seen)

    def _words_of_words(self, stage: Stage, least: int) -> str:
        """Words of a program that reads words."""
        *outer, channel = stage.axes
        word = Axis(channel.name, Integer(stage.shape[-1] // PER_WORD))
        bytes_ = []
        for place in range(PER_WORD):
            value = stage.value
            for read in dict.fromkeys(reads([stage])):
                image = self._images.get(read.tensor)
                if image is not None:
                    packed = Read(image.words, (*read.at[:-1], word))
                    byte = bits(packed, place * ACTIVATION_BITS, ACTIVATION_BITS)
                    value = replaced(value, read, byte + image.least if image.least else byte)
            at = (*outer, word * PER_WORD + place)
            entry = at_places(replace(stage, value=value, axes=stage.axes), at)
            bytes_.append(entry - least if least else entry)
        return self._entered_words(stage, (*outer, word), word_of(tuple(bytes_)))

    def _narrow_words(self, stage: Stage, least: int, zero: Expression) -> str:
        """A word for each pixel of fewer than four channels; the other bytes are the zero point."""
        outer, channels = stage.axes[:-1], stage.shape[-1]
        entries = [at_places(stage, (*outer, Integer(c))) for c in range(channels)]
        bytes_ = [entry - least if least else entry for entry in entries]
        point = self._made.zero(zero)
        if point is None:
            return ""
        others = [Read(point, (Integer(0),))] * (PER_WORD - channels)
        word = Axis(stage.axes[-1].name, Integer(1))
        return self._entered_words(stage, (*outer, word), word_of((*bytes_, *others)))

    def _entered_words(self, like: Stage, axes: tuple[Axis, ...], value: Expression) -> str:
        edit = self._edit
        shape = (*like.shape[:-1], -(-like.shape[-1] // PER_WORD))
        name = edit.value(f"{like.name}.words", DType.I32, shape)
        made = plainly_read(Stage(name, axes, value, dtype=DType.I32), edit)
        edit.nodes.append(node_of([made], edit.values, ""))
        return name

    def _rounded_words(self, stage: Stage) -> str:
        """Words by the workload that rounds real numbers; '' where scales are no numbers."""
        edit = self._edit
        steps = steps_of_bytes(stage.value)
        assert steps is not None
        scale, zero = self._made.scale(steps.scale), self._made.zero(steps.zero)
        if scale is None or zero is None:
            return ""
        match steps.real:
            case Read(tensor) as read if self._is_own(read, stage.axes):
                source = tensor
            case _:
                source = edit.value(stage.name, DType.F32, stage.shape)
                real = replace(stage, name=source, value=steps.real, dtype=DType.F32)
                edit.nodes.append(node_of([plainly_read(real, edit)], edit.values, ""))
        count = prod(stage.shape)
        flat = edit.shaped(source, (count,))
        words = edit.value(f"{stage.name}.words", DType.I32, (count // PER_WORD,))
        edit.nodes.append(self._made.quantised(flat, scale, zero, words))
        return edit.shaped(words, (*stage.shape[:-1], stage.shape[-1] // PER_WORD))

    def _unpack(self, node: Node, image: _Image) -> None:
        edit = self._edit
        shape = (*edit.values[image.words].shape, PER_WORD)
        axes = axes_of(shape)
        name = edit.value(f"{node.output}.unpacked", DType.I32, shape)
        packed = Read(image.words, axes[:-1])
        byte = bits(packed, axes[-1] * ACTIVATION_BITS, ACTIVATION_BITS)
        value = byte + image.least if image.least else byte
        stage = Stage(name, axes, value, dtype=DType.I32)
        edit.nodes.append(node_of([stage], edit.values, ""))
        edit.nodes.append(Node(View(), (name,), node.output, node.label))

    # Convolutions.

    def _convolves(self, node: Node) -> bool:
        if not is_convolution(node) or node.inputs[1] not in self._graph.constants:
            return False
        held = self._read(node.inputs[0])
        if held is None:
            return False
        image, real = held
        scale = None if real.scale is None else self._made.scale(real.scale)
        zero = self._zero(real, image.least)
        weights = np.asarray(self._graph.constants[node.inputs[1]], np.float32)
        apart = _operator(node) == APART
        if apart and image.channels % BLOCK:
            return False
        codes = self._codes(weights, image.channels)
        if zero is None or codes is None or (scale is None and real.scale is not None):
            return False
        entries, row = codes
        words = image.words if apart else self._windows(node, image.words, zero)
        scales = Scales(number=scale, row=row)
        self._sums[node.output] = node, Sums(words=words, codes=entries, zero=zero, scales=scales)
        if real.scale is None and (row == np.rint(row)).all():
            self._whole.add(node.output)
        if not apart:
            self._multiply(node)
        # One that keeps channels apart stays real unless bytes are made of it.
        return not apart

    def _multiply(self, node: Node) -> None:
        """Adds the product that a convolution is, as real numbers."""
        edit, (_, sums) = self._edit, self._sums[node.output]
        shape = edit.values[node.output].shape
        name = edit.value(node.output, DType.F32, (prod(shape[:-1]), shape[-1]))
        edit.nodes.append(
            self._made.product(
                sums.words, sums.codes, sums.zero, sums.scales, name, node.output, node.label
            )
        )
        edit.nodes.append(Node(View(), (name,), node.output, node.label))

    # Bytes of the sums of a convolution.

    def _words_of_sums(self, node: Node, whole: Stage) -> str:
        """Words by a convolution that makes bytes of its sums; '' where more is done to these than
        multiplying by constants of channels, and adding some, or weights have a zero point."""
        edit, steps = self._edit, steps_of_bytes(whole.value)
        assert steps is not None
        starts = {each for each in parts(steps.real) if isinstance(each, Read)}
        read = [each for each in starts if self._root(each.tensor) in self._sums]
        if len(read) != 1 or not self._is_own(read[0], whole.axes) or whole.shape[-1] % PER_WORD:
            return ""
        source, sums = self._sums[self._root(read[0].tensor)]
        if sums.codes.min() < SIGNED[0] or sums.codes.max() > SIGNED[1]:
            return ""
        affine = self._affine(steps.real, read[0], whole)
        step, start = self._made.scale(steps.scale), self._made.zero(steps.zero)
        if affine is None or step is None or start is None:
            return ""
        row, bias = affine
        scales = both(sums.scales, Scales(row=row))
        if scales is None:
            return ""
        made = Requantised(scales=scales, bias=bias, step=step, start=start)
        shape = (*whole.shape[:-1], whole.shape[-1] // PER_WORD)
        if _operator(source) == APART:
            name = edit.value(f"{node.output}.words", DType.I32, shape)
            assert isinstance(source.op, Workload)
            layer = self._made.bytes_of_windows(sums, source.op.extents, made, name, source.label)
            edit.nodes.append(layer)
            return name
        rows = (prod(shape[:-1]), shape[-1])
        name = edit.value(f"{node.output}.words", DType.I32, rows)
        edit.nodes.append(self._made.bytes_of_product(sums.words, sums, made, name, source.label))
        return edit.shaped(name, shape)

    def _affine(self, value: Expression, start: Read, stage: Stage) -> tuple[Row, Row] | None:
        """Returns what an entry is multiplied by, and what is added then, in each channel."""
        steps = steps_of(value, start)
        found = affine_of(steps, lambda step: self._row(step, stage))
        done = steps[-1].whole if steps else start
        if found.steps < len(steps) or done != value:
            return None
        fine = np.isfinite(found.scale).all() and np.isfinite(found.shift).all()
        return (found.scale, found.shift) if fine else None

    def _row(self, step: EntryStep, stage: Stage) -> Row | None:
        """The constants of a step, one or one for each channel."""
        operand = operand_of(step)
        if isinstance(operand, float):
            return np.array([operand], np.float32)
        known = None if operand is None else self._edit.constants.get(operand.tensor)
        if operand is None or known is None or known.dtype != np.float32:
            return None
        in_channels = known.size == stage.shape[-1] and stage.axes[-1] in operand.at
        row = np.asarray(known.reshape(-1), np.float32)
        return row if row.size == 1 or in_channels else None

    def _read(self, name: str) -> tuple[_Image, RealBytes] | None:
        """The image of bytes that real numbers are made of."""
        shape = self._edit.values[name].shape
        axes = axes_of(shape)
        stage = self._looked_through(Stage("", axes, Read(name, axes)))
        found = real_bytes(stage.value)
        match found:
            case RealBytes(held=Read(tensor) as held) if tensor in self._images:
                return (self._images[tensor], found) if self._is_own(held, axes) else None
        return None

    def _zero(self, real: RealBytes, least: int) -> str | None:
        """The zero point of the bytes from 0 on."""
        edit, zero = self._edit, real.zero
        if isinstance(zero, int):
            inside = BYTE[0] <= zero - least <= BYTE[1]
            return self._made.one(np.int32(zero - least)) if inside else None
        if edit.values[zero.tensor].elements > 1:
            return None
        if not least:
            return self._made.one(zero.tensor)
        (axis,) = axes = axes_of((1,))
        name = edit.value(zero.tensor, DType.I32, (1,))
        value = Read(edit.shaped(zero.tensor, (1,)), (axis,)) - least
        edit.nodes.append(node_of([Stage(name, axes, value, dtype=DType.I32)], edit.values, ""))
        return name

    @staticmethod
    def _codes(
        weights: NDArray[np.float32], channels: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]] | None:
        """Whole numbers [kh · kw · c, o], with channels filled up to words, or [kh, kw, c] of
        channels that are kept apart, and their scales."""
        if len(weights.shape) < RANK:
            apart = multiples_of(weights.reshape(-1, channels))
            if apart is None:
                return None
            return apart.codes.reshape(weights.shape), apart.scales
        kh, kw, _, out = weights.shape
        found = multiples_of(weights.reshape(-1, out))
        if found is None:
            return None
        codes = found.codes.reshape(kh, kw, channels, out)
        spare = -channels % PER_WORD
        filled = np.pad(codes, ((0, 0), (0, 0), (0, spare), (0, 0)))
        return filled.reshape(-1, out), found.scales

    def _windows(self, node: Node, words: str, zero: str) -> str:
        """i32[b · y · x, kh · kw · c / 4]: the words under each window."""
        edit = self._edit
        assert isinstance(node.op, Workload)
        given = node.op.extent
        b, h, w, line = edit.values[words].shape
        kh, kw, stride, pad = (given[name] for name in ("kh", "kw", "stride", "pad"))
        y, x = given["y"], given["x"]
        rows = (b * y * x, kh * kw * line)
        if (kh, kw, stride, pad) == (1, 1, 1, 0):
            return edit.shaped(words, rows)
        shape = (b, y, x, kh, kw, line)
        axes = axes_of(shape)
        i, row, column, r, q, word = axes
        places = [
            one * stride + inner - pad if pad else one * stride + inner
            for one, inner in ((row, r), (column, q))
        ]
        inside: tuple[Comparison, ...] = ()
        if pad:
            inside = tuple(
                condition
                for place, extent in zip(places, (h, w), strict=True)
                for condition in (place >= 0, place < extent)
            )
        value: Expression = Read(words, (i, *places, word))
        if inside:
            value = Choice(inside, value, self._outside(zero))
        name = edit.value(f"{node.output}.windows", DType.I32, shape)
        stage = plainly_read(Stage(name, axes, value, dtype=DType.I32), edit)
        edit.nodes.append(node_of([stage], edit.values, ""))
        return edit.shaped(name, rows)

    def _outside(self, zero: str) -> Expression:
        """The word of which each byte is the zero point."""
        known = self._edit.constants.get(zero)
        if known is None:
            return word_of((Read(zero, (Integer(0),)),) * PER_WORD)
        return Integer(int(np.full(PER_WORD, known[0], np.uint8).view(np.int32)[0]))

    # Sums that are whole numbers already.

    def _is_whole(self, node: Node) -> bool:
        """Adds a view in the place of what rounds such sums, or makes real numbers of them again,
        alone."""
        edit = self._edit
        stage = single_stage(node, edit.values)
        if stage is None:
            return False
        match stage.value:
            case Call(Function.ROUND, Read(tensor) as read) if self._root(tensor) in self._whole:
                source = tensor
            case Cast(Read(tensor) as read, DType.I32) if self._root(tensor) in self._whole:
                # Integers are there for whoever reads them as such.
                if self._is_own(read, stage.axes):
                    self._integers[node.output] = tensor
                return False
            case Cast(Read(tensor) as read, DType.F32) if self._root(tensor) in self._integers:
                source = self._integers[self._root(tensor)]
            case _:
                return False
        if not self._is_own(read, stage.axes):
            return False
        edit.nodes.append(Node(View(), (source,), node.output, node.label))
        self._makers[node.output] = edit.nodes[-1]
        return True

    def _is_own(self, read: Read, axes: Sequence[Axis]) -> bool:
        """Returns whether each entry is made of the one at the same place, and none is left out."""
        if self._edit.values[read.tensor].shape != tuple(number(axis.extent) for axis in axes):
            return False
        pairs = zip(read.at, axes, strict=True)
        return all(a == b or b.extent == Integer(1) for a, b in pairs)

    def _root(self, name: str) -> str:
        """Returns the value that this one is, by way of views that change no shape."""
        values = self._edit.values
        while (maker := self._makers.get(name)) and isinstance(maker.op, View):
            if values[maker.inputs[0]].shape != values[name].shape:
                break
            (name,) = maker.inputs
        return name


def _is_cast(stage: Stage) -> bool:
    return isinstance(stage.value, Cast) and isinstance(stage.value.argument, Read)


def _operator(node: Node) -> str:
    return node.op.operator.name if isinstance(node.op, Workload) else ""


def is_convolution(node: Node) -> bool:
    """Returns whether a node is a named convolution with nothing behind it."""
    if not isinstance(node.op, Workload) or node.op.epilogue:
        return False
    return node.op.operator.name in (OVER_ALL, APART)
