"""Measures what page loads see of pages that tune the model that they run.

A model is registered, and while its kernels are compiled, pages of several device classes have a
stream of candidates open, from networks of their own. Others load pages whose class has voted. The
gateway is held to one core; all else shares the others.
"""

import asyncio
import json
import multiprocessing
import os
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_longlong
from itertools import pairwise
from pathlib import Path

import httpx2
import numpy as np
from onnx import helper, numpy_helper, save_model
from onnx.onnx_pb import TensorProto

from bench.busy import CpuUsage
from bench.options import parser, run
from bench.report import CannotMeasure, Cell, Claim, Report, machine
from bench.samples import percentile
from bench.serving.fresh_stack import fresh_stack, gateway_apart, gateway_used_s
from bench.serving.load import OfferedLoad, Server
from bench.serving.manifest import manifest_path
from bench.serving.open_loop import Stream, steady
from bench.serving.page_loads import voted
from cli.gateway_client import GatewayClient
from cli.models.importing import imported
from cli.models.sending import send
from cli.stack.supervisor import Stack
from cli.terminal import note

VOTED = "matmul:f32:m16k16n16"
MODEL = "layers"
LAYERS = 30
"""Products of different shapes, as many as networks have."""
PAGES, PAGES_OF_A_CLASS = 200, 10
PAGES_NICE = 10
PER_SECOND = 100
SECONDS = 30.0
HIT_MS = 20.0
OPENED_WITHIN_S = 60.0
VISIT_S = 30.0
"""A page measures what it was sent for so long."""


def main() -> None:
    options = parser("Pages that tune themselves: what others that load a page see of them.")
    options.add_argument("--seconds", type=float, default=SECONDS)
    options.add_argument("--pages", type=int, default=PAGES)
    options.add_argument("--layers", type=int, default=LAYERS)
    run(options, measure, tiny=("--seconds", "1", "--pages", "4", "--layers", "2"))


def measure(options: Namespace) -> Report:
    with fresh_stack() as stack:
        (device_class, *_) = voted(stack, 1, VOTED)
        path = manifest_path(VOTED, device_class)
        described = machine(gateway_on_core=gateway_apart(stack), pages=options.pages)
        before = CpuUsage.now()
        alone = _loads(stack, path, options.seconds)
        _register(stack, options.layers)
        received = multiprocessing.get_context("spawn").RawValue(c_longlong, 0)
        with _tuning(stack, options.pages, received):
            note(f"{options.pages} pages that tune themselves, for {options.seconds:g} s")
            used_s, start_s = gateway_used_s(stack), time.perf_counter()
            beside = _loads(stack, path, options.seconds)
            elapsed_s = time.perf_counter() - start_s
            described["gateway_busy"] = (gateway_used_s(stack) - used_s) / elapsed_s
        described["others_busy"] = CpuUsage.now().others_since(before)
    rows = [_row("page loads alone", alone), _row("beside pages that tune themselves", beside)]
    return Report(
        name="streams",
        machine=described,
        rows=rows,
        claims=[
            Claim.at_least("candidates that were sent", received.value, "kernels", 1),
            Claim.at_most("p99 of page loads", percentile(beside.waited_ms, 99), "ms", HIT_MS),
        ],
    )


def _register(stack: Stack, layers: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{MODEL}.onnx"
        _write(file, layers)
        model = imported(file, MODEL, ({},), Path(folder) / "weights", note)
        with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
            send(gateway, model, source=file.name, replace=False, weights_url=None, told=note)


def _write(file: Path, layers: int) -> None:
    """A network of layers of which none has the shape of another."""
    widths = [16 + 4 * layer for layer in range(layers + 1)]
    chance = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(chance.random(shape, np.float32), f"w{layer}")
        for layer, shape in enumerate(pairwise(widths))
    ]
    nodes = []
    for layer in range(layers):
        nodes.append(helper.make_node("MatMul", [f"x{layer}", f"w{layer}"], [f"p{layer}"]))
        nodes.append(helper.make_node("Relu", [f"p{layer}"], [f"x{layer + 1}"]))
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, width])
        for name, width in (("x0", widths[0]), (f"x{layers}", widths[-1]))
    ]
    graph = helper.make_graph(nodes, MODEL, ports[:1], ports[1:], weights)
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(file))


@contextmanager
def _tuning(stack: Stack, pages: int, received: c_longlong) -> Iterator[None]:
    """Pages that tune themselves, in a process of their own, until the block ends."""
    tuning = multiprocessing.get_context("spawn").Process(
        target=_tune, args=(stack.url, pages, received), daemon=True
    )
    tuning.start()
    try:
        until_s = time.monotonic() + OPENED_WITHIN_S
        while received.value == 0:
            if time.monotonic() > until_s or tuning.exitcode is not None:
                raise CannotMeasure("no page that tunes itself was sent a candidate")
            time.sleep(0.1)
        yield
        if tuning.exitcode:
            raise CannotMeasure("the pages that tune themselves failed before the end")
    finally:
        tuning.terminate()
        tuning.join()


def _tune(url: str, pages: int, received: c_longlong) -> None:
    # Pages are on devices of their own: these give way to the load that is timed.
    os.nice(PAGES_NICE)

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(pages):
                group.create_task(_page(Server.at(url), number, received))

    asyncio.run(all_of_them())


async def _page(server: Server, number: int, received: c_longlong) -> None:
    """Reads all that is sent, and asks again for what came since, from a network of its own; once
    there is no more to come it is another visitor's page.
    """
    device_class = f"{number // PAGES_OF_A_CLASS:016x}:r1-0:wasm+simd128"
    transport = httpx2.AsyncHTTPTransport(local_address=f"127.9.{number}.1")
    base = f"http://{server.host}:{server.port}"
    async with httpx2.AsyncClient(base_url=base, transport=transport, timeout=None) as http:
        path = f"/v1/models/{MODEL}/{device_class}/candidates?wait_s=60"
        while True:
            async with http.stream("GET", path) as answer:
                async for line in answer.aiter_lines():
                    told = json.loads(line)
                    received.value += len(told.get("candidates", ()))
            await asyncio.sleep(told["retry_s"] or VISIT_S)
            after = 0 if told["end"] == "complete" else told["cursor"] or 0
            path = f"{path.partition('&')[0]}&after={after}"


def _loads(stack: Stack, path: str, seconds: float) -> OfferedLoad:
    # As the gateway has it once a page of the class was loaded.
    httpx2.get(stack.url + path).raise_for_status()
    server = Server.at(stack.url)
    asked = [server.get(path)] * (int(PER_SECOND * seconds) + 2)
    (load,) = steady(server, Stream(requests=asked, per_second=PER_SECOND))
    return load


def _row(what: str, load: OfferedLoad) -> dict[str, Cell]:
    return {
        "load": what,
        "requests": len(load.waited_ms),
        "per_second": load.per_second,
        "p50_ms": percentile(load.waited_ms, 50),
        "p99_ms": percentile(load.waited_ms, 99),
        "sent_late_p99_ms": percentile(load.late_ms, 99),
    }


if __name__ == "__main__":
    main()
