"""The graph of a decoder on a prompt, evaluated by NumPy as a page runs it."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kernelzoo.numerics.operators import NUMPY_DTYPES
from services.tuner.graph.evaluate import evaluate
from services.tuner.language.decoder import DecoderGraph


def prompt_logits(made: DecoderGraph, tokens: list[int]) -> tuple[NDArray[np.float32], int]:
    """The logits behind a prompt that is longer than one block, and the token that is chosen."""
    graph = made.graph
    states = {
        name: np.zeros(graph.values[name].shape, NUMPY_DTYPES[graph.values[name].dtype])
        for name in graph.states
    }
    states["prompt"][: len(tokens)] = tokens
    states["position"][1] = len(tokens)
    states["token"][0] = tokens[0]
    feeds = {port.name: states[port.value] for port in graph.inputs}
    block = replace(graph, nodes=graph.nodes[: made.step], outputs=())
    token = replace(graph, nodes=graph.nodes[made.step :])
    evaluate(block, feeds, states)
    assert states["position"][0] == made.rows, "the block took as many tokens"
    while states["position"][0] < len(tokens):
        found = evaluate(token, feeds, states)["logits"].reshape(-1)
    return np.asarray(found, np.float32), int(states["token"][0])
