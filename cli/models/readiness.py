"""Waits until pages of every device can run a model: until its default kernels are compiled."""

import time
from collections.abc import Callable

from cli.gateway_client import GatewayClient
from cli.models.sending import Told
from kernelzoo.errors import StackError
from services.gateway.wire.models import FailedDefault, ModelReadiness

POLL_S = 0.25
IDLE_S = 60.0
"""After so long without a kernel nobody is taken to compile: a kernel takes half a second, and what
workers do before it, such as a training of the cost model, tens of seconds at the most."""
_BAR = 30


def wait_until_ready(
    gateway: GatewayClient,
    name: str,
    told: Told,
    *,
    idle_s: float = IDLE_S,
    sleep: Callable[[float], None] = time.sleep,
) -> ModelReadiness:
    """Raises StackError where a workload has no kernel, or none comes for `idle_s`."""
    changed_s, before = time.monotonic(), -1
    while True:
        found = gateway.model_readiness(name)
        if found.failed:
            raise StackError(_failure(name, found.failed))
        if found.compiled == found.defaults:
            return found
        now_s = time.monotonic()
        if found.compiled != before:
            changed_s, before = now_s, found.compiled
        if now_s - changed_s > idle_s:
            raise StackError(_idle(found, idle_s))
        told(_line(found))
        sleep(POLL_S)


def _line(found: ModelReadiness) -> str:
    done = _BAR * found.compiled // max(1, found.defaults)
    bar = "█" * done + "░" * (_BAR - done)
    return f"default kernels {bar} {found.compiled} of {found.defaults} compiled"


def _failure(name: str, failed: list[FailedDefault]) -> str:
    first = failed[0]
    return (
        f"{name} is registered, but pages cannot run it: of {len(failed)} of its workloads no "
        f"kernel compiles, {first.workload} for {first.target} among them ({first.detail}). "
        "Report this with the model's file; `kernelzoo models remove` takes it back"
    )


def _idle(found: ModelReadiness, idle_s: float) -> str:
    return (
        f"{found.model} is registered, but not ready for pages: {found.compiled} of "
        f"{found.defaults} default kernels are compiled, and none has come for {idle_s:.0f} s. "
        "Start a compile worker: `kernelzoo up` has one on this machine, `docker compose up` "
        "or the chart elsewhere; if one runs, read its log. The same command again goes on "
        "waiting, and with --no-wait it does not wait"
    )
