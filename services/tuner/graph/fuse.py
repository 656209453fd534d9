"""The rules that make few calls of many nodes, in their order. Each is a function of a graph.

    byte_tables_packed      tables of bytes lie four to a word
    large_constants_split   tables that are no tensor of a kernel lie in pieces
    pooling_channels_last   means and largest entries of whole images are pooling
    channels_last           images lie as convolutions want them, transposes become views
    byte_images_named       images of bytes are words, which convolutions multiply
    elementwise_merged      chains of entries become one program
    byte_products_named     products of bytes are workloads, with their scales
    norms_named             layer norms and RMS norms that are spelt out become workloads
    epilogues_fused         what follows a contraction goes into it, constants into its weights
    products_joined         queries, keys and values in one product
    movements_merged        transposes, slices and pads go into what reads them
    transposes_folded       a product reads its operand as it lies
    tied_weights_shared     weights that are another constant's transpose are read from it
    attention_joined        products of heads and their softmax are one program

The second is no choice, as kernels take no larger tensors. Epilogues go before movements: a
transpose that had taken a bias could not give it back. Norms go before epilogues, because a
contraction may take the sum that a norm is computed of.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from numpy.typing import NDArray

from services.tuner.graph.attending import attention_joined
from services.tuner.graph.byte_images import byte_images_named
from services.tuner.graph.byte_products import byte_products_named
from services.tuner.graph.byte_tables import byte_tables_packed
from services.tuner.graph.epilogues import epilogues_fused
from services.tuner.graph.graph import Graph, Node
from services.tuner.graph.layout import channels_last, pooling_channels_last
from services.tuner.graph.lower import lowered
from services.tuner.graph.magnitudes import wide_nodes
from services.tuner.graph.merge import elementwise_merged, movements_merged
from services.tuner.graph.norms import norms_named
from services.tuner.graph.operands import products_joined, tied_weights_shared, transposes_folded
from services.tuner.graph.storing_f16 import storing_f16
from services.tuner.graph.tables import large_constants_split


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A switch for each rule, for tests and for figures of what each is worth."""

    channels_last: bool = True
    elementwise: bool = True
    bytes: bool = True
    norms: bool = True
    epilogues: bool = True
    affine: bool = True
    products: bool = True
    movements: bool = True
    transposes: bool = True
    tied: bool = True
    attention: bool = True

    @classmethod
    def none(cls) -> "Rules":
        return cls(**{field.name: False for field in fields(cls)})


ALL_RULES = Rules()


def fused(graph: Graph, rules: Rules = ALL_RULES) -> Graph:
    """A graph of workloads and views."""
    return lowered(ruled(graph, rules))


def fused_f16(graph: Graph, feeds: Mapping[str, NDArray[Any]]) -> tuple[Graph, tuple[Node, ...]]:
    """Fuses, and stores values as f16 but for those that no f16 holds where inputs are some times
    as large as `feeds`. Returns the nodes that make these, too."""
    made = ruled(graph, ALL_RULES)
    wide = wide_nodes(made, feeds)
    return lowered(storing_f16(made, frozenset(node.output for node in wide))), wide


def ruled(graph: Graph, rules: Rules) -> Graph:
    """A graph that the rules have been through, which is not lowered yet."""
    graph = large_constants_split(byte_tables_packed(graph) if rules.bytes else graph)
    for switch, rule in _order(rules):
        graph = rule(graph) if switch else graph
    return graph


def _order(rules: Rules) -> list[tuple[bool, Callable[[Graph], Graph]]]:
    return [
        (rules.channels_last, pooling_channels_last),
        (rules.channels_last, channels_last),
        (rules.bytes and rules.channels_last, byte_images_named),
        (rules.elementwise, elementwise_merged),
        (rules.bytes, byte_products_named),
        (rules.norms, norms_named),
        (rules.epilogues, lambda graph: epilogues_fused(graph, affine=rules.affine)),
        (rules.elementwise, elementwise_merged),
        (rules.products, products_joined),
        (rules.movements, movements_merged),
        (rules.transposes, transposes_folded),
        (rules.movements, movements_merged),
        (rules.epilogues, lambda graph: epilogues_fused(graph, affine=rules.affine)),
        (rules.tied, tied_weights_shared),
        (rules.attention, attention_joined),
        (rules.attention and rules.movements, movements_merged),
    ]
