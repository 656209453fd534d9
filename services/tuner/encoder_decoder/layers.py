"""The layers of encoder and decoder are made of these: norms, products with a bias, the attention's
queries, keys and values, and the feed-forward part; of one row, or of all of an encoder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kernelzoo.domain.operators.attention import HeadsOperand, ManyRowsAttention, attention
from kernelzoo.domain.operators.decoding import gated_product
from kernelzoo.domain.operators.encoding import spared
from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.operators.prefill import normed_rows
from kernelzoo.domain.workload import Workload
from services.tuner.encoder_decoder.config import EncoderDecoderConfig, Stack
from services.tuner.encoder_decoder.naming import ENCODER
from services.tuner.encoder_decoder.tensors import NamedTensors
from services.tuner.graph.graph import Node, Value, View
from services.tuner.language.building import GraphBuilding, Matrix
from services.tuner.language.quantise import Quantised

SPARE = "spare"
"""The state that says how many places of the encoder there are not."""
BIAS, RESIDUAL, SCALE = "bias", "residual", "scale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A matrix with its bias, which is () where the model has none."""

    matrix: Matrix
    bias: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The encoder or the decoder while its calls are made. `rows` is what a call computes at once:
    all places of the encoder, of which some may be spare, or one."""

    name: str
    config: EncoderDecoderConfig
    tensors: NamedTensors
    made: GraphBuilding
    rows: int

    @property
    def stack(self) -> Stack:
        return self.config.encoder if self.name == ENCODER else self.config.decoder

    @property
    def inner(self) -> int:
        return self.config.inner(self.stack)

    def called(self, key: str, inputs: Sequence[str], output: str) -> str:
        """A named workload of all rows."""
        if self.rows == 1:
            return self.made.named(key, inputs, output)
        return self.made.named(f"{key}:spare={self.rows}", (*inputs, SPARE), output)

    def program(self, name: str, program: Program, inputs: Sequence[str], output: str) -> str:
        if self.rows == 1:
            return self.made.program(name, program, inputs, output)
        return self.made.program(name, spared(program, self.rows), (*inputs, SPARE), output)

    def viewed(self, name: str, shape: tuple[int, ...]) -> str:
        """Returns the same entries in another shape."""
        output = f"{name} joined"
        self.made.values[output] = Value(output, self.made.values[name].dtype, shape)
        self.made.nodes.append(Node(View(), (name,), output, output))
        return output

    # Weights

    def product(self, told: str, names: Sequence[str], rows: int, columns: int) -> Product:
        """The products of some names with the same rows, one below the other."""
        parts = [self.tensors.matrix((f"{each}.weight",), rows, columns) for each in names]
        matrix = self.made.matrix(told, Quantised.stacked(*parts))
        if not self.config.biased:
            return Product(matrix=matrix, bias=())
        found = [
            # Whisper has none for its keys.
            self.tensors.vector(f"{each}.bias", rows)
            if f"{each}.bias" in self.tensors
            else np.zeros(rows, np.float32)
            for each in names
        ]
        return Product(
            matrix=matrix, bias=(self.made.constant(f"{told} bias", np.concatenate(found)),)
        )

    # Calls

    def normed(self, x: str, name: str, output: str) -> str:
        config, width = self.config, self.config.width
        gamma = self.made.constant(f"{output} gamma", self.tensors.vector(f"{name}.weight", width))
        if config.rms:
            program = normed_rows(self.rows, width, config.epsilon)
            return self.program("normed_rows", program, (x, gamma), output)
        beta = self.made.constant(f"{output} beta", self.tensors.vector(f"{name}.bias", width))
        eps = "" if config.epsilon == 1e-5 else f"eps{round(-np.log10(config.epsilon))}"
        return self.called(f"layer_norm:f32:m{self.rows}n{width}{eps}", (x, gamma, beta), output)

    def multiplied(
        self, x: str, product: Product, output: str, epilogue: str = "", residual: str = ""
    ) -> str:
        """`epilogue` stands between the bias and what is added."""
        columns = self.made.values[x].shape[1]
        rows = self.made.values[product.matrix.tensors[0]].shape[0]
        names = ["matmul", *([BIAS] if product.bias else []), *([epilogue] if epilogue else [])]
        names += [RESIDUAL] if residual else []
        key = product.matrix.form.key("+".join(names), f"m{self.rows}k{columns}n{rows}")
        given = (x, *product.matrix.tensors, *product.bias, *((residual,) if residual else ()))
        return self.called(key, given, output)

    def fed_forward(self, x: str, residual: str, layer: str, told: str) -> str:
        """The feed-forward part of a layer, added to `residual`."""
        config, naming, width = self.config, self.config.naming, self.config.width
        hidden = self.stack.hidden
        names = [layer + naming.part(each, self.name) for each in naming.up]
        up = self.product(f"{told} up", names, hidden, width)
        if config.gated:
            form = up.matrix.form
            program = gated_product(self.rows, width, hidden, gate=config.activation, form=form)
            name = f"gated_{form.name}"
            made = self.program(name, program, (x, *up.matrix.tensors), f"{told} gated")
        else:
            made = self.multiplied(x, up, f"{told} widened", config.activation)
        name = layer + naming.part(naming.down, self.name)
        down = self.product(f"{told} down", [name], width, hidden)
        return self.multiplied(made, down, f"{told} fed forward", residual=residual)

    def branch(self, x: str, norm: str, told: str) -> str:
        """Returns what a branch reads of the rows x."""
        return self.normed(x, norm, f"{told} normed") if self.config.normed_first else x

    def joined(self, x: str, norm: str, told: str) -> str:
        """Returns what comes of rows to which a branch was added."""
        return x if self.config.normed_first else self.normed(x, norm, f"{told} normed")

    def self_attention(self, x: str, layer: str, told: str, attended: Callable[[str], str]) -> str:
        """The first part of a layer. `attended` makes what is attended of the rows of queries, keys
        and values, which lie side by side in this order."""
        naming, inner, width = self.config.naming, self.inner, self.config.width
        names = [layer + naming.self_attention + each for each in naming.projections]
        *projections, output = names
        norm = layer + naming.part(naming.self_norm, self.name)
        a = self.branch(x, norm, f"{told} attention")
        projection = self.product(f"{told} qkv", projections, inner, width)
        projected = self.multiplied(a, projection, f"{told} projected")
        rows = attended(projected)
        product = self.product(f"{told} output", (output,), width, inner)
        x = self.multiplied(rows, product, f"{told} summed", residual=x)
        return self.joined(x, norm, f"{told} attention")

    def attended(
        self, queries: tuple[str, int], keys: tuple[str, int], residual: str, told: str
    ) -> str:
        """Attention over the places of the encoder: queries, and keys with the values behind them,
        are columns of matrices from a first one on. `residual` is added to scores, where it is
        given. f32[rows, inner]"""
        config, inner = self.config, self.inner
        (query, first_query), (key, first_key) = queries, keys
        places = {name: number for number, name in enumerate(dict.fromkeys((query, key)))}
        columns = {name: self.made.values[name].shape[1] for name in places}

        def operand(name: str, first: int) -> HeadsOperand:
            return HeadsOperand(place=places[name], columns=columns[name], first=first)

        scaled = not residual
        program = attention(
            ManyRowsAttention(
                heads=self.stack.heads,
                m=self.rows,
                n=config.source_length,
                head_dim=config.head_dim,
                width=config.head_dim,
                queries=operand(query, first_query),
                keys=operand(key, first_key),
                values=operand(key, first_key + inner),
                epilogue=(RESIDUAL,) if residual else (SCALE,),
                spare_keys=True,
                spare_rows=self.rows > 1,
            )
        )
        extra = residual
        if scaled:
            factor = np.float32(config.score_scale or config.head_dim**-0.5)
            extra = "score scale"
            if extra not in self.made.constants:
                self.made.constant(extra, np.array([factor], np.float32))
        workload = Workload.of_program("attention", program)
        output = self.made.call(workload, (*places, extra, SPARE), f"{told} attended")
        return self.viewed(output, (self.rows, inner))
