"""Step 5: a whole network whose weights a seed has just made, tuned as far as its time goes."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cli.demo.examples import EXAMPLES
from cli.demo.watch import TUNE, DemoFailed, too_late
from cli.figures import number
from cli.gateway_client import GatewayClient
from cli.models.importing import imported
from cli.models.sending import send
from cli.models.tuning import TunedPlan, is_done, sights
from cli.stack.supervisor import Stack
from cli.terminal import note
from kernelzoo.errors import KernelZooError
from kernelzoo.formats.bundle import any_classes
from services.gateway.wire.models import ModelManifest

NAME = "encoder"
WRITE = EXAMPLES / "network" / "write.py"


def tune_network(
    stack: Stack, gateway: GatewayClient, until_s: float, show: Callable[[str], None]
) -> Path:
    """Its file, which onnxruntime-web reads as it is. Returns when all of it is tuned, or at
    `until_s` of the monotonic clock, with a kernel for each of its calls.

    Raises DemoFailed where one is still lacking when the step's time is over.
    """
    onnx = stack.place.root / "network" / f"{NAME}.onnx"
    try:
        show(f"{NAME}: making the weights and importing them")
        _register(gateway, onnx, lambda _: None)
    except (KernelZooError, subprocess.CalledProcessError) as error:
        raise DemoFailed.at(TUNE, str(error), stack.log("gateway")) from error
    started_s = time.monotonic()
    for seen in sights(gateway, NAME):
        for sentence in stack.tend():
            note(sentence)
        best = max(seen, key=lambda each: each.confirmed_flops, default=None)
        show(told(best))
        now_s = time.monotonic()
        if is_done(seen) or (now_s >= until_s and _runs(gateway)):
            return onnx
        if now_s - started_s > TUNE.limit_s:
            raise DemoFailed.at(TUNE, too_late(TUNE), stack.log(TUNE.log))
    raise DemoFailed.at(TUNE, "the watch ended", stack.log(TUNE.log))


def _register(gateway: GatewayClient, onnx: Path, told: Callable[[str], None]) -> None:
    subprocess.run((sys.executable, WRITE, onnx), check=True)
    model = imported(onnx, NAME, ({},), onnx.with_suffix(".weights"), told)
    send(gateway, model, source=onnx.name, replace=False, weights_url=None, told=told)


def _runs(gateway: GatewayClient) -> bool:
    """Returns whether a device that nobody knows has a kernel for each call."""
    usual = any_classes()[-1][0]
    body = gateway.model_manifest_bytes(NAME, usual, {})
    return not ModelManifest.model_validate_json(body).missing


def told(best: TunedPlan | None) -> str:
    if best is None or best.expected_ms is None:
        return f"{NAME}: nothing is measured yet"
    fell = best.first_ms is not None and best.expected_ms < best.first_ms
    at_first = f", {number(best.first_ms, 'ms')} at first" if fell else ""
    return (
        f"{NAME}: {best.confirmed} of {best.workloads} kernels confirmed, "
        f"{best.confirmed_flops:.0%} of its operations; "
        f"a run is expected to take {number(best.expected_ms, 'ms')}{at_first}"
    )
