"""ONNX's recurrent layers, unrolled: a node for every step, as all lengths are known."""

from collections.abc import Callable, Mapping

import numpy as np

from services.tuner.graph.functions import Body

MAX_STEPS = 256
USUAL = {
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "GRU": ("Sigmoid", "Tanh"),
    "RNN": ("Tanh",),
}


def _layer(
    operator: str, step: Callable[["_Direction"], None]
) -> Callable[[Body], tuple[str, ...]]:
    def write(body: Body) -> tuple[str, ...]:
        _refuse(body, operator)
        steps, batch, _ = body.shape(0)
        kind = body.text("direction", "forward")
        backwards = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[kind]
        made = []
        for number, back in enumerate(backwards):
            own = _Direction(body, number)
            states: list[str] = [""] * steps
            for place in reversed(range(steps)) if back else range(steps):
                own.enter(place)
                step(own)
                states[place] = own.hidden
            wide = (body.reshaped(each, 1, 1, batch, own.size) for each in states)
            made.append((body.node("Concat", *wide, axis=0), own.hidden, own.cell))
        last = ([body.reshaped(each[n], 1, batch, own.size) for each in made] for n in (1, 2))
        all_, ends = [each[0] for each in made], last
        return (
            body.node("Concat", *all_, axis=1),
            *(body.node("Concat", *each, axis=0) for each in ends),
        )

    return write


def _refuse(body: Body, operator: str) -> None:
    steps = body.shape(0)[0]
    usual = USUAL[operator] * (2 if body.text("direction") == "bidirectional" else 1)
    lengths = body.known(4)
    reasons = {
        "it has peepholes": body.has(7),
        "its batch comes first (layout 1)": bool(body.integer("layout")),
        "it clips": body.value("clip") is not None,
        "it joins gates": bool(body.integer("input_forget")),
        "its activations are not the usual ones": body.texts("activations") not in ((), usual),
        f"it has {steps} steps, of which at most {MAX_STEPS} are unrolled": steps > MAX_STEPS,
        "its lengths depend on inputs or differ": body.has(4)
        and (lengths is None or bool(np.any(lengths != steps))),
    }
    for reason, holds in reasons.items():
        if holds:
            raise body.refusal(reason, "export it with ONNX's defaults, for one short sequence")


class _Direction:
    """The state of one direction: what enters it is multiplied with its weights all at once."""

    def __init__(self, body: Body, number: int) -> None:
        self.body = body
        steps, self.batch, width = body.shape(0)
        self.size = body.shape(2)[2]
        self.number = number
        self._rows = self._part(1)
        self.recurrent = self._part(2)
        inputs = body.reshaped("i0", steps * self.batch, width)
        product = body.node("MatMul", inputs, body.transposed(self._rows, 1, 0))
        gates = body.shape(1)[1]
        self.biases = self._part(3) if body.has(3) else ""
        if self.biases:
            product = body.node("Add", product, body.sliced(self.biases, 0, 0, gates))
        self._entering = body.reshaped(product, steps, self.batch, gates)
        self._gates = gates
        self.hidden, self.cell = (self._state(place) for place in (5, 6))
        self.given = ""

    def _part(self, place: int) -> str:
        whole = self.body.shape(place)
        part = self.body.sliced(f"i{place}", 0, self.number, self.number + 1)
        return self.body.reshaped(part, *whole[1:])

    def _state(self, place: int) -> str:
        if self.body.has(place):
            return self._part(place)
        return self.body.weight(np.zeros((self.batch, self.size), self.body.dtype(0)))

    def enter(self, place: int) -> None:
        part = self.body.sliced(self._entering, 0, place, place + 1)
        self.given = self.body.reshaped(part, self.batch, self._gates)

    def own(self, first: int = 0, last: int | None = None, of: str = "") -> str:
        """The hidden state, or `of`, times the recurrent weights of some gates, with their bias."""
        body = self.body
        stop = self._gates // self.size if last is None else last
        start, stop = first * self.size, stop * self.size
        rows = body.sliced(self.recurrent, 0, start, stop)
        product = body.node("MatMul", of or self.hidden, body.transposed(rows, 1, 0))
        if not self.biases:
            return product
        bias = body.sliced(self.biases, 0, self._gates + start, self._gates + stop)
        return body.node("Add", product, bias)

    def gate(self, of: str, number: int) -> str:
        return self.body.sliced(of, 1, number * self.size, (number + 1) * self.size)


def _lstm(at: _Direction) -> None:
    """Gates in the order input, output, forget, cell."""
    body = at.body
    total = body.node("Add", at.given, at.own())
    enter, leave, keep = (body.node("Sigmoid", at.gate(total, n)) for n in range(3))
    new = body.node("Mul", enter, body.node("Tanh", at.gate(total, 3)))
    at.cell = body.node("Add", body.node("Mul", keep, at.cell), new)
    at.hidden = body.node("Mul", leave, body.node("Tanh", at.cell))


def _gru(at: _Direction) -> None:
    """Gates in the order update, reset, hidden."""
    body = at.body
    own = at.own(0, 2)
    update, reset = (
        body.node("Sigmoid", body.node("Add", at.gate(at.given, n), at.gate(own, n)))
        for n in range(2)
    )
    if body.integer("linear_before_reset"):
        part = body.node("Mul", reset, at.own(2, 3))
    else:
        part = at.own(2, 3, of=body.node("Mul", reset, at.hidden))
    new = body.node("Tanh", body.node("Add", at.gate(at.given, 2), part))
    apart = body.node("Sub", at.hidden, new)
    at.hidden = body.node("Add", new, body.node("Mul", update, apart))


def _rnn(at: _Direction) -> None:
    at.hidden = at.body.node("Tanh", at.body.node("Add", at.given, at.own()))


OPERATORS: Mapping[str, Callable[[Body], tuple[str, ...]]] = {
    "GRU": _layer("GRU", _gru),
    "LSTM": _layer("LSTM", _lstm),
    "RNN": _layer("RNN", _rnn),
}
