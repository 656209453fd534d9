"""Tables of bytes lie four to a word, as in the file that they come from, and not one to a word.

    y[i: 128, j: 384] = table[ids[i], j]                               table: i32[30522, 384]

    y[i: 128, j: 384] = words[ids[i], j // 4] >> j % 4 * 8 & 255       words: i32[30522, 96]

Bytes with sign are less by 256 from 128 on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Choice,
    Expression,
    Integer,
    Program,
    Read,
    bits,
)
from kernelzoo.domain.operators.integer_products import ACTIVATION_BITS, PER_WORD
from services.tuner.graph.edit import Edit
from services.tuner.graph.formulas import node_of, reads, reads_of, replaced, single_stage
from services.tuner.graph.graph import Graph, Node

LEAST_ENTRIES = 1024
"""Tables of fewer stay as they are."""
SIGN = 1 << (ACTIVATION_BITS - 1)


def byte_tables_packed(graph: Graph) -> Graph:
    """A graph without such tables stays as it is."""
    users = graph.users
    tables = {
        name: packed
        for name, entries in graph.constants.items()
        if _is_looked_up(graph, name, users[name]) and (packed := _words(entries)) is not None
    }
    if not tables:
        return graph
    edit = Edit(graph)
    words = {name: edit.constant(name, entries) for name, entries in tables.items()}
    for node in graph.nodes:
        edit.nodes.append(_unpacking(node, graph, edit, words))
    return edit.finished()


def _is_looked_up(graph: Graph, name: str, users: Sequence[Node]) -> bool:
    """Returns whether all who read a constant choose rows of it, entry by entry."""
    value = graph.values[name]
    if value.dtype is not DType.I32 or value.elements < LEAST_ENTRIES or not users:
        return False
    for node in users:
        stage = single_stage(node, graph.values) if isinstance(node.op, Program) else None
        if stage is None or any(
            isinstance(read.at[0], Axis | Integer) for read in reads_of([stage], name)
        ):
            return False
    return all(port.value != name for port in graph.outputs)


def _words(entries: NDArray[np.generic]) -> NDArray[np.int32] | None:
    """None for what is not of bytes, or has no whole words in a row."""
    if entries.ndim < 2 or entries.shape[-1] % PER_WORD:
        return None
    for narrow in (np.uint8, np.int8):
        bytes_ = entries.astype(narrow)
        if np.array_equal(bytes_, entries):
            return np.ascontiguousarray(bytes_).view(np.int32)
    return None


def _unpacking(node: Node, graph: Graph, edit: Edit, words: Mapping[str, str]) -> Node:
    if not any(name in words for name in node.inputs):
        return node
    stage = single_stage(node, graph.values)
    assert stage is not None
    value = stage.value
    for read in dict.fromkeys(reads([stage])):
        if read.tensor in words:
            signed = bool((graph.constants[read.tensor] < 0).any())
            value = replaced(value, read, _byte(words[read.tensor], read, signed=signed))
    return node_of([replace(stage, value=value)], edit.values, node.label)


def _byte(words: str, read: Read, *, signed: bool) -> Expression:
    *rows, entry = read.at
    word = Read(words, (*rows, entry // PER_WORD))
    byte = bits(word, entry % PER_WORD * ACTIVATION_BITS, ACTIVATION_BITS)
    return Choice((byte >= SIGN,), byte - 2 * SIGN, byte) if signed else byte
