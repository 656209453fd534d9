"""Attention of many rows as one program: softmax(q · kᵀ, scaled and masked) · v in each head.

    sum[h, i, j] = sum over d of q[i, h * head_dim + d] * k[j, h * head_dim + d]
    scores[h, i, j] = sum[h, i, j] * scale[0] + mask[i, j]
    power[h, i, j] = exp(scores[h, i, j] - most[h, i])
    c[i, h, e] = mixed[h, i, e] / total[h, i]

Queries, keys and values may be columns of one matrix, as one product makes them. Heads that follow
one another may share keys and values (grouped-query attention): those of head h are k[h // 3, j, d]
where three do.

Of a range of lengths there are only the first keys, and only the first rows are wanted: a last
input `spare` says how many of the last ones are neither. Where there are more keys than rows, as
with a cache, an input `spare_keys` before it says how many keys there are not.

    scores[h, i, j] = (… if j + spare[0] < n else -inf)
    mixed[h, i, e] = sum over j of (… if j + spare[0] < n else 0)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from kernelzoo.domain.operators.epilogues import (
    EPILOGUES,
    UNFINISHED,
    EpilogueKind,
    epilogue_inputs,
    finished,
)
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Call,
    Choice,
    CompareOp,
    Comparison,
    Expression,
    Function,
    Input,
    Integer,
    Program,
    Read,
    Real,
    Reducer,
    Spare,
    Stage,
    number,
    parts,
    read,
)

LANES = 4

NAME = "attention"
"""Its workloads have this name."""

SPARE = Input("spare", "i32", (1,))
"""Says how many rows at the end nobody wants, and how many keys at the end there are not."""

SPARE_KEYS = Input("spare_keys", "i32", (1,))
"""Says the latter where that is another number."""

SCORED = {name: kind for name, kind in EPILOGUES.items() if kind is not EpilogueKind.UNARY}
"""Scores may go through these before their softmax."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsOperand:
    """Queries, keys or values lie here: in input number `place`, a matrix of `columns` columns with
    those of head 0 from column `first` on, head after head. Without columns it is [heads, rows,
    entries]. As many heads as `shared` have the same entries, and count as one then."""

    place: int
    columns: int = 0
    first: int = 0
    shared: int = 1

    def shape(self, heads: int, rows: int, entries: int) -> tuple[int, ...]:
        return (rows, self.columns) if self.columns else (heads // self.shared, rows, entries)

    def steps(self, rows: int, entries: int) -> tuple[int, int]:
        """Elements from head to head that is not the same, and from row to row."""
        return (entries, self.columns) if self.columns else (rows * entries, entries)

    def entry(self, head: Axis, row: Axis, entry: Axis) -> Read:
        name = f"x{self.place}"
        own: Expression = head // self.shared if self.shared > 1 else head
        if not self.columns:
            return Read(name, (own, row, entry))
        column = own * number(entry.extent) + entry
        return read(name, row, column + self.first if self.first else column)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyRowsAttention:
    """`m` queries and `n` keys of `head_dim` entries in each of `heads`, `n` values of `width`.
    `epilogue` is what is done to scores, as after a product of matrices. Where it is told what is
    spare, `spare_keys` and `spare_rows` say of which that is, and `spare_apart` that it is told of
    keys and of rows by an input each."""

    heads: int
    m: int
    n: int
    head_dim: int
    width: int
    queries: HeadsOperand
    keys: HeadsOperand
    values: HeadsOperand
    epilogue: tuple[str, ...] = ()
    spare_keys: bool = False
    spare_rows: bool = False
    spare_apart: bool = False

    @property
    def shared(self) -> int:
        """Counts the heads that have the same keys and values."""
        return self.keys.shared

    @property
    def told(self) -> tuple[Input, ...]:
        """The last inputs, which say what is spare."""
        if not (self.spare_keys or self.spare_rows):
            return ()
        return (SPARE_KEYS, SPARE) if self.spare_apart else (SPARE,)

    @property
    def is_told_spare(self) -> bool:
        return bool(self.told)

    @property
    def in_vectors(self) -> bool:
        """True if rows of scores and of the output are whole vectors of four."""
        return self.m > 1 and self.n % LANES == 0 and self.width % LANES == 0

    @property
    def in_quads(self) -> bool:
        """True if each row of a head also begins with a whole vector, wherever it is read."""
        places = (each for of, *_ in self.operands for each in (of.columns, of.first))
        return self.in_vectors and not any(n % LANES for n in (self.head_dim, *places))

    @property
    def operands(self) -> tuple[tuple[HeadsOperand, int, int], ...]:
        """The operands, each with its rows and the entries that a row has in a head."""
        return (
            (self.queries, self.m, self.head_dim),
            (self.keys, self.n, self.head_dim),
            (self.values, self.n, self.width),
        )


def attention(given: ManyRowsAttention) -> Program:
    """c[m, heads, width]. Inputs: those of the operands, then those of the epilogue."""
    h, i, j = _axis("h", given.heads), _axis("i", given.m), _axis("j", given.n)
    d, e = _axis("d", given.head_dim), _axis("e", given.width)
    product = given.queries.entry(h, i, d) * given.keys.entry(h, j, d)

    def there(value: Expression, otherwise: float) -> Expression:
        if not given.spare_keys:
            return value
        told = given.told[0].name
        is_there = Comparison(CompareOp.LT, j + read(told, Integer(0)), Integer(given.n))
        return Choice((is_there,), value, Real(otherwise))

    stages = [Stage(UNFINISHED, (h, i, j), product, Reducer.SUM, (d,))]
    if given.epilogue or given.spare_keys:
        value = finished(given.epilogue, stages[0][h, i, j], (h, i, j))
        stages.append(Stage("scores", (h, i, j), there(value, -inf)))
    scores = stages[-1]
    most = Stage("most", (h, i), scores[h, i, j], Reducer.MAX, (j,))
    power = Stage("power", (h, i, j), Call(Function.EXP, scores[h, i, j] - most[h, i]))
    total = Stage("total", (h, i), power[h, i, j], Reducer.SUM, (j,))
    weighed = power[h, i, j] * given.values.entry(h, j, e)
    mixed = Stage("mixed", (h, i, e), there(weighed, 0.0), Reducer.SUM, (j,))
    made = Stage("c", (i, h, e), mixed[h, i, e] / total[h, i])
    return Program(
        inputs=_inputs(given),
        stages=(*stages, most, power, total, mixed, made),
        spare=Spare(SPARE.name, given.m) if given.spare_rows else None,
    )


def _axis(name: str, extent: int) -> Axis:
    return Axis(name, Integer(extent))


def _inputs(given: ManyRowsAttention) -> tuple[Input, ...]:
    shapes = {each.place: each.shape(given.heads, *of) for each, *of in given.operands}
    extra = epilogue_inputs(given.epilogue, (given.heads, given.m, given.n))
    return (
        *(Input(f"x{place}", "f32", shapes[place]) for place in sorted(shapes)),
        *(Input(name, "f32", shape) for name, shape in extra),
        *given.told,
    )


def attention_of(program: Program) -> ManyRowsAttention | None:
    """Reads a normalised program in f32 or f16 as attention; returns None for any other."""
    found = _read_off(program)
    return found if found is not None and _normalised(found) == program.in_f32 else None


@lru_cache(maxsize=64)
def _normalised(given: ManyRowsAttention) -> Program:
    return attention(given).normalised()


def _read_off(program: Program) -> ManyRowsAttention | None:
    """Sizes and operands where the stages may be those of attention."""
    inputs = {each.name: (n, each.shape) for n, each in enumerate(program.inputs)}
    if len(program.stages) not in (6, 7):
        return None
    products, mixed = program.stages[0], program.stages[-2]
    weighed = mixed.value.then if isinstance(mixed.value, Choice) else mixed.value
    match products.value, weighed:
        case Binary(BinaryOp.MUL, Read() as q, Read() as k), Binary(_, Read(), Read() as v):
            operands = [_operand(each, inputs) for each in (q, k, v)]
        case _:
            return None
    value = None if len(program.stages) == 6 else program.stages[1].value
    spare_keys = isinstance(value, Choice)
    apart = isinstance(value, Choice) and _is_told_apart(value, program)
    value = value.then if isinstance(value, Choice) else value
    scored = () if value is None else _epilogue(value)
    queries, keys, values = operands
    sizes = (products.axes, products.over, mixed.axes)
    if queries is None or keys is None or values is None:
        return None
    if scored is None or [*map(len, sizes)] != [3, 1, 3]:
        return None
    if queries.shared > 1 or keys.shared != values.shared:
        return None
    heads, m, n = products.shape
    return ManyRowsAttention(
        heads=heads,
        m=m,
        n=n,
        head_dim=number(products.over[0].extent),
        width=mixed.shape[-1],
        queries=queries,
        keys=keys,
        values=values,
        epilogue=scored,
        spare_keys=spare_keys,
        spare_rows=program.spare is not None,
        spare_apart=apart,
    )


def _is_told_apart(there: Choice, program: Program) -> bool:
    """Returns whether another input says what is spare of the keys than of the rows."""
    told = {part.tensor for part in parts(there.conditions[0].left) if isinstance(part, Read)}
    return program.spare is not None and program.spare.tensor not in told


def _operand(entry: Read, inputs: Mapping[str, tuple[int, tuple[int, ...]]]) -> HeadsOperand | None:
    if entry.tensor not in inputs:
        return None
    place, shape = inputs[entry.tensor]
    shared = _shared(entry)
    match entry.at:
        case (_, Binary(BinaryOp.ADD, _, Integer(first))):
            return HeadsOperand(place=place, columns=shape[-1], first=first, shared=shared)
        case (_, _):
            return HeadsOperand(place=place, columns=shape[-1], shared=shared)
        case (_, _, _):
            return HeadsOperand(place=place, shared=shared)
    return None


def _shared(entry: Read) -> int:
    for place in entry.at:
        for part in parts(place):
            match part:
                case Binary(BinaryOp.FLOOR_DIV, Axis(), Integer(divisor)):
                    return divisor
    return 1


def _epilogue(value: Expression) -> tuple[str, ...] | None:
    """The names of the epilogues of a score, in order."""
    names: list[str] = []
    while isinstance(value, Binary):
        match value:
            case Binary(BinaryOp.ADD, inner, Read(_, at)):
                names.append(("bias", "mask", "residual")[len(at) - 1])
            case Binary(BinaryOp.MUL, inner, Read(_, (Integer(),))):
                names.append("scale")
            case Binary(BinaryOp.MUL, inner, Read()):
                names.append("scales")
            case _:
                return None
        value = inner
    return tuple(reversed(names))
