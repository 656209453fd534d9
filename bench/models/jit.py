"""A network that its page tunes between inferences, from kernels of which nothing is known.

Each network is added to a stack of its own whose zoo is empty: gateway, compile workers and
database as `kernelzoo up` runs them, on the cores that the page has, too, at the lowest priority,
as no visitor's device has a zoo. Nobody watches the browser: a debugger takes part in each of the
hundreds of fetches. The page is opened once the default kernels are compiled; candidates come while
it runs inference after inference, with rests between in which it measures them. A copy that is not
tuned runs in turns with it, and nothing is measured meanwhile: before and after, the zoo would have
less of the machine than while it compiles. onnxruntime-web runs the same network now and then.

With `--gpu` both engines run on WebGPU, where a worker does not tell when an inference began.
"""

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

import msgspec

from bench.busy import CpuUsage
from bench.kernels.peers import peer_versions
from bench.models.at_gateway import add, hold_back
from bench.models.cases import OTHERS, TINY, NetworkCase
from bench.models.files import network_files, publish
from bench.models.memory import ListeningSite, unwatched
from bench.models.options import add_gpu, chosen_cases, network_parser
from bench.options import run
from bench.page_json import PageJson
from bench.report import CannotMeasure, Cell, Claim, Report, machine
from bench.serving.fresh_stack import fresh_stack
from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from workers.fleet.gpu import GpuChoice, gpu_flags

DEFAULT = ("roberta", "gpt2", "t5-small", "resnet50", "mobilenetv2")
TINY_OPTIONS = ("--only", TINY.name, "--seconds", "2", "--peer-every", "0")

WITHIN = 1.05
REACHED_S = 30
WORSE = 1.05
ENDS = 1.02
WAIT_MS = 1
BESIDE_S = 600
"""For the default kernels."""
LAST = 15
LAST_SHARE = 0.05
"""The median of the last inferences, so many of them at least, is the best known."""


def main() -> None:
    options = network_parser("Networks that their page tunes between inferences.", OTHERS, DEFAULT)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--rest", type=float, default=1, help="1: half of the time is idle")
    options.add_argument("--peer-every", type=int, default=10, help="our inferences for one of it")
    add_gpu(options, "on WebGPU, on that adapter")
    options.add_argument("--curve", type=Path, metavar="FILE", help="write every inference there")
    run(options, measure, tiny=TINY_OPTIONS)


class TimedSwap(PageJson, frozen=True, kw_only=True):
    """Mirrors the swap of `page/src/models/jit.ts`."""

    at_s: float
    workload: str
    relative_time: float


class JitAnswer(PageJson, frozen=True, kw_only=True):
    """Mirrors the answer of `page/src/models/jit.ts`. `browser`: by its own word."""

    browser: str
    initial_ms: tuple[float, ...]
    ours: tuple[tuple[float, float], ...]
    waits_ms: tuple[float, ...]
    after_slice_ms: tuple[float, ...]
    peer: tuple[tuple[float, float], ...]
    swaps: tuple[TimedSwap, ...]
    regressions: tuple[str, ...]
    measured: int
    spent_ms: float
    ended_s: float | None
    reason: str
    long_tasks_ms: tuple[float, ...]
    contributed: int
    difference: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedNetwork:
    case: NetworkCase
    compiled: int
    answer: JitAnswer
    others_busy: float

    @property
    def initial_ms(self) -> float:
        return median(self.answer.initial_ms)

    @property
    def best_ms(self) -> float:
        return median(elapsed for _, elapsed in self.answer.ours[-self._last :])

    @property
    def gain(self) -> float:
        """Against the copy that is not tuned, at the same time."""
        return median(self.answer.initial_ms[-self._last :]) / self.best_ms

    @property
    def _last(self) -> int:
        return max(LAST, round(LAST_SHARE * len(self.answer.ours)))

    @property
    def reached_s(self) -> float:
        """Since when the median of five inferences is near the best."""
        curve = self.answer.ours
        for i in range(len(curve) - 4):
            if median(elapsed for _, elapsed in curve[i : i + 5]) <= WITHIN * self.best_ms:
                return curve[i][0]
        return curve[-1][0]

    @property
    def p95_ms(self) -> float:
        """The 95th percentile of inferences while it is tuned."""
        return _p95([elapsed for _, elapsed in self.answer.ours[: self.tuned]])

    @property
    def initial_p95_ms(self) -> float:
        """Returns that of the copy that is not tuned: what the machine itself does to
        inferences."""
        return _p95(list(self.answer.initial_ms[: self.tuned]))

    @property
    def tuned(self) -> int:
        """Counts the inferences while it was tuned."""
        until = self.answer.ended_s or float("inf")
        return sum(at <= until for at, _ in self.answer.ours)

    @property
    def after_slice_p95_ms(self) -> float | None:
        """From the end of the slice that was under way, where one was, until an inference began.
        None on a GPU."""
        return _p95_if_any(list(self.answer.after_slice_ms[: self.tuned]))

    @property
    def untuned_wait_p95_ms(self) -> float | None:
        """Until an inference began once tuning had ended: what the machine itself does to them.
        None where it was still at work."""
        return _p95_if_any(list(self.answer.waits_ms[self.tuned :]))


def _p95(values: list[float]) -> float:
    """Among the values that there are: of twenty inferences the last but one."""
    return quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def _p95_if_any(values: list[float]) -> float | None:
    return _p95(values) if values else None


def measure(options: Namespace) -> Report:
    held = []
    for case in chosen_cases(options, OTHERS):
        with ListeningSite.serving() as site, fresh_stack() as stack:
            held.append(_measured(site, stack, case, options))
    if options.curve is not None:
        curves = {each.case.name: msgspec.to_builtins(each.answer) for each in held}
        options.curve.write_text(json.dumps(curves) + "\n")
    described_machine = machine(
        browser=held[0].answer.browser,
        seconds=options.seconds,
        rest=options.rest,
        **peer_versions(),
    )
    return Report(
        name="models-jit" if options.gpu is None else "models-jit-webgpu",
        machine=described_machine,
        rows=[_row(each) for each in held],
        claims=[claim for each in held for claim in _claims(each)],
    )


def _measured(
    site: ListeningSite, stack: Stack, case: NetworkCase, options: Namespace
) -> TunedNetwork:
    files = network_files(options.folder, case)
    document = publish(site, files, None)
    target = TargetKind.WASM if options.gpu is None else TargetKind.WEBGPU
    asked = {
        "gateway": stack.url,
        "name": case.name,
        "rest": options.rest,
        "seconds": options.seconds,
        "peerEvery": options.peer_every,
        "beside": True,
        "application": None,
        "backend": target,
    }
    flags = () if options.gpu is None else gpu_flags(GpuChoice(options.gpu))
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        hold_back(stack)
        add(gateway, files, target)
        before = CpuUsage.now()
        answer = _ask(site, document, asked, options.seconds + BESIDE_S, flags)
        return TunedNetwork(
            case=case,
            compiled=sum(job.compiled for job in gateway.jobs()),
            answer=answer,
            others_busy=CpuUsage.now().others_since(before),
        )


def _ask(
    site: ListeningSite,
    network: str,
    asked: Mapping[str, object],
    limit_s: float,
    flags: Sequence[str],
) -> JitAnswer:
    query = urlencode({"jit": json.dumps(asked), "network": network, "tell": ""})
    with (
        TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        unwatched(f"{site.url}/models.html?{query}", profile, *flags),
    ):
        answer = site.heard(limit_s)
    if failure := answer.get("failure"):
        raise CannotMeasure(f"the page failed: {str(failure)[:400]}")
    return msgspec.convert(answer, JitAnswer)


def _row(held: TunedNetwork) -> dict[str, Cell]:
    answer = held.answer
    waits_ms = list(answer.waits_ms[: held.tuned])
    peer = [elapsed for _, elapsed in answer.peer]
    return {
        "network": held.case.name,
        "initial_ms": held.initial_ms,
        "best_ms": held.best_ms,
        "gain": held.gain,
        "reached_s": held.reached_s,
        "ended_s": answer.ended_s,
        "p95_of_initial": held.p95_ms / held.initial_ms,
        "initial_p95_of_initial": held.initial_p95_ms / held.initial_ms,
        "wait_ms": median(waits_ms) if waits_ms else None,
        "wait_p95_ms": _p95_if_any(waits_ms),
        "wait_most_ms": max(waits_ms, default=None),
        "after_slice_p95_ms": held.after_slice_p95_ms,
        "untuned_wait_p95_ms": held.untuned_wait_p95_ms,
        "swaps": len(answer.swaps),
        "taken_back": len(answer.regressions),
        "compiled": held.compiled,
        "measured": answer.measured,
        "measuring_s": answer.spent_ms / 1000,
        "long_tasks": len(answer.long_tasks_ms),
        "peer_ms": median(peer) if peer else None,
        "difference": answer.difference,
        "others_busy": held.others_busy,
    }


def _claims(held: TunedNetwork) -> Iterator[Claim]:
    name = held.case.name
    yield Claim.at_most(f"{name}: within 5 % of the best", held.reached_s, "s", REACHED_S)
    worst = held.p95_ms / held.initial_p95_ms
    yield Claim.at_most(f"{name}: p95 while tuned", worst, "of the initial p95", WORSE)
    yield Claim.at_most(f"{name}: time at the end", 1 / held.gain, "of the initial", ENDS)
    begins = f"{name}: p95 from a slice's end to an inference"
    if held.after_slice_p95_ms is not None:
        yield Claim.at_most(begins, held.after_slice_p95_ms, "ms", WAIT_MS)
    yield Claim.at_most(f"{name}: long tasks", len(held.answer.long_tasks_ms), "tasks", 0)
    yield Claim.at_most(f"{name}: difference to PyTorch", held.answer.difference, "", 1e-4)


if __name__ == "__main__":
    main()
