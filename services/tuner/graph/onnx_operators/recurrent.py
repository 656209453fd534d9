"""Recurrent layers: a product of all steps with the weights of the input, then one program that is
made step by step (`kernelzoo.domain.operators.recurrence`), both directions at once.

    entering = x · Wᵀ + biases                                 a row of all gates for each step
    sums[t, d, b, n] = Σ state[t - 1, d, b, k] · r[d, k, n]    the weights of the state
    cell[t, d, b, j], state[t, d, b, j] = …                    gates of entering and sums

The reverse direction enters at `steps - 1 - t`, or where sequences have lengths of their own at
`length - 1 - t`; a sequence that has ended keeps its state, so that the last step has the last
state of all. r is stored `_scale` times as large, and the sums are divided by it: a power of two,
which rounds nothing. So the recurrence forgets what entered long ago under seeded inputs from -1/2
to 1/2, and a report can be checked at every step; with weights of that size themselves rounding
errors would grow in each.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan, prod

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Call,
    Choice,
    Expression,
    Function,
    Integer,
    Read,
    Real,
    Reducer,
    largest,
    smallest,
)
from kernelzoo.errors import InvalidInput
from services.tuner.graph.building import Carried, Formula, Operand, Site
from services.tuner.graph.onnx_operators.contraction import product

USUAL = {
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "GRU": ("Sigmoid", "Tanh"),
    "RNN": ("Tanh",),
}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}

Activation = Callable[[Expression, float, float], Expression]


def _call(function: Function) -> Activation:
    return lambda x, _, __: Call(function, x)


def _softplus(x: Expression) -> Expression:
    """log(1 + e^x), which neither overflows nor cancels."""
    far = Call(Function.EXP, 0.0 - Call(Function.ABS, x))
    return largest(x, 0.0) + Call(Function.LOG, far + 1.0)


ACTIVATIONS: Mapping[str, tuple[Activation, float | None, float | None]] = {
    "affine": (lambda x, alpha, beta: x * alpha + beta, 1.0, 0.0),
    "relu": (lambda x, _, __: largest(x, 0.0), None, None),
    "leakyrelu": (lambda x, alpha, _: Choice((x < 0.0,), x * alpha, x), 0.01, None),
    "thresholdedrelu": (lambda x, alpha, _: Choice((x > alpha,), x, Real(0.0)), 1.0, None),
    "tanh": (_call(Function.TANH), None, None),
    "scaledtanh": (lambda x, alpha, beta: Call(Function.TANH, x * beta) * alpha, nan, nan),
    "sigmoid": (_call(Function.SIGMOID), None, None),
    "hardsigmoid": (
        lambda x, alpha, beta: smallest(largest(x * alpha + beta, 0.0), 1.0), 0.2, 0.5,
    ),
    "elu": (
        lambda x, alpha, _: Choice((x < 0.0,), (Call(Function.EXP, x) - 1.0) * alpha, x), 1.0, None,
    ),
    "softsign": (lambda x, _, __: x / (Call(Function.ABS, x) + 1.0), None, None),
    "softplus": (lambda x, _, __: _softplus(x), None, None),
}  # fmt: skip
"""By their names in lower case, with what ONNX has for alpha and beta where they are left out: None
where an activation takes none, nan where it must be given."""


def _carry(site: Site) -> Carried:
    layer = _Layer(site)
    made = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}[site.step.operator](layer)
    return layer.outputs(made)


class _Layer:
    """One layer: its operands, and the program of its steps in the making."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.operator = site.step.operator
        self.batch_first = bool(site.integer("layout"))
        direction = site.text("direction", "forward")
        self.backwards = DIRECTIONS[direction.lower()]
        x = site.needed(0)
        if self.batch_first:
            x = site.transposed(x, (1, 0, 2))
        self.steps, self.batch, _ = x.shape
        self.ways, _, self.size = site.needed(2).shape
        if self.ways != len(self.backwards):
            raise InvalidInput(
                f"{site.step.told} has weights of {self.ways} directions and is {direction}; "
                "export the model again"
            )
        self.clip = site.attribute("clip")
        self.lengths = self._lengths()
        self.biases = site.input(3)
        self.formula = Formula(site)
        self.axes = self.formula.axes((self.steps, self.ways, self.batch, self.size))
        self.t, self.d, self.b, self.j = self.axes
        self._activations = tuple(self._chosen())
        self._entering = self._multiplied(x)

    # What enters.

    def _lengths(self) -> Operand | None:
        """None where all sequences have all steps."""
        found = self.site.input(4)
        if found is not None and found.constant is not None:
            return None if np.all(found.constant == self.steps) else found
        return found

    def _length(self, formula: Formula, b: Expression) -> Expression:
        """Reads how many steps a sequence has: at most all of them, whatever a page hands over."""
        assert self.lengths is not None
        return smallest(formula.read(self.lengths, (b,)), self.steps)

    def _multiplied(self, x: Operand) -> Operand:
        """[steps, batch, directions, gates · size]: what enters times its weights, with biases."""
        site, weights = self.site, self.site.needed(1)
        columns = prod(weights.shape[:2])
        transposed = site.transposed(weights, (2, 0, 1))
        matrix = site.view(transposed, (weights.shape[2], columns))
        rows = self.steps * self.batch
        made = product(site, site.view(x, (rows, weights.shape[2])), matrix, (rows, columns))
        if self.biases is not None:
            formula = Formula(site)
            row, column = formula.axes((rows, columns))
            bias = site.view(self._entering_bias(), (columns,))
            value = formula.read(made, (row, column)) + formula.read(bias, (column,))
            made = formula.output((row, column), value)
        made = site.view(made, (self.steps, self.batch, self.ways, weights.shape[1]))
        return self._in_order_of_steps(made)

    def _entering_bias(self) -> Operand:
        """[directions, gates · size]: the biases of both products, but for that of a GRU's hidden
        gate which its reset gate is multiplied with, too."""
        site, biases = self.site, self.site.needed(3)
        gates = biases.shape[1] // 2
        kept = gates - self.size if self.resets_behind else gates
        if biases.constant is not None:
            own = biases.constant[:, :gates].copy()
            own[:, :kept] += biases.constant[:, gates : gates + kept]
            return site.constant(own)
        formula = Formula(site)
        way, gate = formula.axes((self.ways, gates))
        own_bias = formula.read(biases, (way, gate))
        other = formula.read(biases, (way, gate + gates))
        whole = own_bias + (other if kept == gates else Choice((gate < kept,), other, Real(0.0)))
        return formula.output((way, gate), whole)

    def _in_order_of_steps(self, made: Operand) -> Operand:
        """Reverses the reverse direction's part of each sequence where there are lengths."""
        if self.lengths is None or not any(self.backwards):
            return made
        formula = Formula(self.site)
        t, b, d, n = axes = formula.axes(made.shape)
        length = self._length(formula, b)
        from_behind = Choice(
            (t < length,), formula.read(made, (length - 1 - t, b, d, n)), Real(0.0)
        )
        value: Expression = from_behind
        if not all(self.backwards):
            value = Choice((d < 1,), formula.read(made, axes), from_behind)
        return formula.output(axes, value)

    def entering(self, column: Expression) -> Expression:
        """Reads what enters a column of gates in a step."""
        forwards, from_behind = (
            self.formula.read(self._entering, (step, self.b, self.d, column))
            for step in (self.t, self.steps - 1 - self.t)
        )
        if self.lengths is not None or not any(self.backwards):
            return forwards
        return from_behind if all(self.backwards) else Choice((self.d < 1,), forwards, from_behind)

    def column(self, gate: int) -> Expression:
        return self.j + gate * self.size if gate else self.j

    @property
    def resets_behind(self) -> bool:
        return self.operator == "GRU" and bool(self.site.integer("linear_before_reset"))

    # States.

    def before(self, stage: str, initial: int, at: Sequence[Expression]) -> Expression:
        """An entry of a state at the step before, or as it is given for the first."""
        given = self.site.input(initial)
        first: Expression = Real(0.0)
        if given is not None and (given.constant is None or np.any(given.constant)):
            d, b, j = at
            first = self.formula.read(given, (b, d, j) if self.batch_first else (d, b, j))
        return Choice((self.t > 0,), Read(stage, (self.t - 1, *at)), first)

    def kept(self, new: Expression, before: Expression) -> Expression:
        """The new entry of a state, or that of the step before where a sequence has ended."""
        if self.lengths is None:
            return new
        return Choice((self.t < self._length(self.formula, self.b),), new, before)

    @property
    def turns(self) -> bool:
        """True if one direction enters in the order of steps and the other one in the reverse."""
        return len(self.backwards) > 1 and self.lengths is None

    def gates(
        self, entering: Callable[[Axis], Expression], first: int, count: int, *, joined: int
    ) -> "_Gates":
        """A stage of products with the weights of so many gates from the first on. What enters is
        added to those of the first `joined`, in a stage of its own where directions enter in
        different orders: so each of their entries is chosen once."""
        size = self.size
        n, k = Axis("n", Integer(count * size)), Axis("k", Integer(size))
        weights, factor = self._weights(first, count)
        value = entering(k) * self.formula.read(weights, (self.d, k, n))
        stage = self.formula.stage((self.t, self.d, self.b, n), value, DType.F32, Reducer.SUM, (k,))
        sums = _Gates(layer=self, sums=stage.name, totals="", first=first, factor=factor)
        if not (self.turns and joined):
            return sums
        column = Axis("n", Integer(joined * size))
        at = (self.t, self.d, self.b, column)
        total = self.entering(column) + sums.scaled(Read(stage.name, at))
        return replace(sums, totals=self.formula.stage(at, total).name)

    def _weights(self, first: int, count: int) -> tuple[Operand, float]:
        """[directions, k, n] of some gates, and the factor of sums of products with them."""
        site, whole = self.site, self.site.needed(2)
        rows = slice(first * self.size, (first + count) * self.size)
        if whole.constant is None:
            formula = Formula(site)
            d, k, n = axes = formula.axes((self.ways, self.size, count * self.size))
            value = formula.read(whole, (d, n + rows.start if first else n, k))
            return formula.output(axes, value), 1.0
        scale = _scale(self.size)
        part = whole.constant[:, rows].transpose(0, 2, 1) * np.float32(scale)
        return site.constant(np.ascontiguousarray(part)), 1 / scale

    # Gates.

    def _chosen(self) -> Iterator[tuple[Callable[[Expression], Expression], ...]]:
        """The activations of each direction."""
        site, usual = self.site, USUAL[self.operator]
        given_names, needed = site.attribute("activations"), len(usual) * self.ways
        # The default of RNN's schema has two, whatever its directions are.
        names = given_names if isinstance(given_names, tuple) and given_names else usual * self.ways
        if len(names) < needed:
            raise InvalidInput(
                f"{site.step.told} has {len(names)} activations and needs {needed}; "
                "export the model again"
            )
        given = [list(self._numbers(f"activation_{name}")) for name in ("alpha", "beta")]
        made = []
        for name in names[:needed]:
            if str(name).lower() not in ACTIVATIONS:
                raise site.refusal(
                    f"its activation {name} is not known",
                    f"use one of {', '.join(ACTIVATIONS)}",
                )
            activation, *defaults = ACTIVATIONS[str(name).lower()]
            alpha, beta = (
                0.0 if default is None else values.pop(0) if values else default
                for default, values in zip(defaults, given, strict=True)
            )
            if isnan(alpha) or isnan(beta):
                raise site.refusal(f"its activation {name} lacks alpha or beta", "give it both")
            made.append(lambda x, f=activation, a=alpha, b=beta: f(x, a, b))
        for way in range(self.ways):
            yield tuple(made[way * len(usual) : (way + 1) * len(usual)])

    def _numbers(self, attribute: str) -> tuple[float, ...]:
        value = self.site.attribute(attribute)
        return tuple(map(float, value)) if isinstance(value, tuple) else ()

    def activated(self, number: int, x: Expression) -> Expression:
        """An activation of what is within the clip, by its number in the operator's list."""
        if isinstance(self.clip, int | float):
            bound = float(self.clip)
            x = smallest(largest(x, -bound), bound)
        return self.unclipped(number, x)

    def unclipped(self, number: int, x: Expression) -> Expression:
        made = [each[number](x) for each in self._activations]
        if len(made) == 1 or made[0] == made[1]:
            return made[0]
        return Choice((self.d < 1,), *made)

    # Outputs.

    def state(self, value: Expression, name: str) -> None:
        stage = self.formula.stage(self.axes, value)
        if stage.name != name:
            raise AssertionError(f"stage {stage.name} was read as {name}")

    def outputs(self, made: "_Made") -> Carried:
        """All states, those of the last step, and the last cells, as far as they are asked for."""
        site, wanted = self.site, self.site.outputs
        cell = made.cell if len(wanted) > 2 and wanted[2] is not None else None
        has_cell = cell is not None
        if cell is not None:
            s = Axis("s", Integer(2))
            axes = (self.t, self.d, self.b, s, self.j)
            parts = [Read(name, self.axes) for name in (made.state, cell)]
            self.formula.stage(axes, Choice((s < 1,), *parts))
        try:
            whole = self.formula.workload(site.step.operator.lower())
        except InvalidInput as error:
            raise site.refusal(f"it is too large: {error}", "use fewer steps") from error
        found: list[Operand | None] = []
        for number, type_ in enumerate(wanted):
            if type_ is None:
                found.append(None)
            elif number == 0:
                found.append(self._all(whole, has_cell=has_cell))
            else:
                found.append(self._last(whole, number - 1, has_cell=has_cell))
        return tuple(found)

    def _all(self, whole: Operand, *, has_cell: bool) -> Operand:
        if self.lengths is None and not (has_cell or self.batch_first or any(self.backwards)):
            return whole
        formula = Formula(self.site)
        t, d, b, j = axes = formula.axes((self.steps, self.ways, self.batch, self.size))
        from_behind: Expression = self.steps - 1 - t
        if self.lengths is not None:
            length = self._length(formula, b)
            from_behind = length - 1 - t

        def at(step: Expression) -> Expression:
            return formula.read(whole, (step, d, b, *((0,) if has_cell else ()), j))

        value = at(from_behind) if all(self.backwards) else at(t)
        if len(self.backwards) > 1:
            value = Choice((d < 1,), value, at(from_behind))
        if self.lengths is not None:
            value = Choice((t < length,), value, Real(0.0))
        return formula.output((b, t, d, j) if self.batch_first else axes, value)

    def _last(self, whole: Operand, part: int, *, has_cell: bool) -> Operand:
        formula = Formula(self.site)
        d, b, j = axes = formula.axes((self.ways, self.batch, self.size))
        place = (part,) if has_cell else ()
        value = formula.read(whole, (self.steps - 1, d, b, *place, j))
        if self.lengths is not None:
            # onnxruntime has zeros for a sequence without steps, whatever its initial state is.
            value = Choice((self._length(formula, b) > 0,), value, Real(0.0))
        return formula.output((b, d, j) if self.batch_first else axes, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """The names of the stages of states."""

    state: str
    cell: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gates:
    """`sums` is the stage of products with the weights of gates from `first` on, which are to be
    multiplied by a `factor`; `totals` is that with what enters added to them, or ''."""

    layer: _Layer
    sums: str
    totals: str
    first: int
    factor: float

    def scaled(self, value: Expression) -> Expression:
        return value if self.factor == 1 else value * self.factor

    def alone(self, gate: int) -> Expression:
        """A gate without what enters."""
        return self.scaled(self._entry(self.sums, gate))

    def total(self, gate: int) -> Expression:
        if self.totals:
            return self._entry(self.totals, gate)
        return self.layer.entering(self.layer.column(gate)) + self.alone(gate)

    def _entry(self, stage: str, gate: int) -> Expression:
        layer = self.layer
        return Read(stage, (layer.t, layer.d, layer.b, layer.column(gate - self.first)))


def _scale(size: int) -> float:
    """The power of two from which on so many weights from -1/2 to 1/2, divided by it, sum up to 1/2
    at the most."""
    return float(1 << (size - 1).bit_length())


def _lstm(layer: _Layer) -> _Made:
    """Gates in the order input, output, forget, cell; peepholes in that of the first three."""
    peepholes = layer.site.input(7)
    place = 1 + layer.turns + (peepholes is not None)
    cell, state = f"s{place}", f"s{place + 1}"
    at = (layer.d, layer.b)
    gates = layer.gates(lambda k: layer.before(state, 5, (*at, k)), 0, 4, joined=4)
    old = layer.before(cell, 6, (*at, layer.j))
    if peepholes is not None:
        old = Read(layer.formula.stage(layer.axes, old).name, layer.axes)

    def gate(number: int, seen: Expression) -> Expression:
        if peepholes is None:
            return gates.total(number)
        peephole = layer.formula.read(peepholes, (layer.d, layer.column(number)))
        return gates.total(number) + peephole * seen

    enter = layer.activated(0, gate(0, old))
    joined = layer.site.integer("input_forget")
    keep = 1.0 - enter if joined else layer.activated(0, gate(2, old))
    new = keep * old + enter * layer.activated(1, gates.total(3))
    layer.state(layer.kept(new, old), cell)
    made = Read(cell, layer.axes)
    hidden = layer.activated(0, gate(1, made)) * layer.unclipped(2, made)
    layer.state(layer.kept(hidden, layer.before(state, 5, (*at, layer.j))), state)
    return _Made(state=state, cell=cell)


def _gru(layer: _Layer) -> _Made:
    """Gates in the order update, reset, hidden."""
    at = (layer.d, layer.b)
    state = f"s{(1 if layer.resets_behind else 3) + layer.turns}"
    old = layer.before(state, 5, (*at, layer.j))

    def state_at(k: Axis) -> Expression:
        return layer.before(state, 5, (*at, k))

    gates = layer.gates(state_at, 0, 3 if layer.resets_behind else 2, joined=2)
    update, reset = (layer.activated(0, gates.total(gate)) for gate in range(2))
    if layer.resets_behind:
        inner = gates.alone(2)
        if layer.biases is not None:
            inner = inner + layer.formula.read(layer.biases, (layer.d, layer.column(5)))
        inner = reset * inner
    else:
        part = layer.formula.stage(layer.axes, reset * old)
        behind = layer.gates(lambda k: Read(part.name, (layer.t, *at, k)), 2, 1, joined=0)
        inner = behind.alone(2)
    new = layer.activated(1, layer.entering(layer.column(2)) + inner)
    layer.state(layer.kept(new + update * (old - new), old), state)
    return _Made(state=state)


def _rnn(layer: _Layer) -> _Made:
    at, state = (layer.d, layer.b), f"s{1 + layer.turns}"
    gates = layer.gates(lambda k: layer.before(state, 5, (*at, k)), 0, 1, joined=1)
    new = layer.activated(0, gates.total(0))
    layer.state(layer.kept(new, layer.before(state, 5, (*at, layer.j))), state)
    return _Made(state=state)


OPERATORS: Mapping[str, Callable[[Site], Carried]] = dict.fromkeys(GATES, _carry)
