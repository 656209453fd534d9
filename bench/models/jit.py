"""A network that its page tunes between inferences, from kernels of which nothing is known.

One page runs inference after inference, with rests between, and measures candidates in the rests.
The candidates were compiled beforehand and lie on a static host in the order of a gateway's queue,
so that this times the page and not the compiler. onnxruntime-web runs the same network in turns.
"""

import json
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from bench.browser import CALL_MS, chromium
from bench.busy import CpuUsage
from bench.kernels.peers import peer_versions
from bench.models.cases import CASES, OTHERS, TINY, NetworkCase
from bench.models.files import NetworkFiles, network_files, publish
from bench.models.ours import ZOO, prepare
from bench.models.tuning import Choices
from bench.models.wasm import FOLDER
from bench.options import parser, run
from bench.report import CannotMeasure, Cell, Claim, Report, machine
from bench.site import BenchSite
from fixtures.model_site import described
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.target import TargetKind
from services.tuner.graph.models import plan_model
from services.tuner.schedules.registry import lite_space

DEFAULT = ("mobilenetv2", "minilm")
TINY_OPTIONS = ("--only", TINY.name, "--seconds", "2", "--peer-every", "0")

WORTH = 0.002
"""Share of a network's operations below which no candidates are offered."""

EACH = 24
"""Candidates of a workload that are offered, the likely best first."""

BATCH = 4
"""Candidates of a workload in one line of the queue."""

WITHIN = 1.05
REACHED_S = 30
WORSE = 1.05
LAST = 15
"""Inferences whose median is the best known."""


def main() -> None:
    options = parser("Networks that their page tunes between inferences.")
    known = [case.name for case in (*CASES, *OTHERS, TINY)]
    options.add_argument("--folder", type=Path, default=FOLDER, help="where `make networks` writes")
    options.add_argument("--only", nargs="+", choices=known, default=list(DEFAULT))
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--rest", type=float, default=1, help="1: half of the time is idle")
    options.add_argument("--peer-every", type=int, default=10, help="our inferences for one of it")
    options.add_argument("--each", type=int, default=EACH, help="candidates of a workload")
    options.add_argument("--curve", type=Path, metavar="FILE", help="write every inference there")
    run(options, measure, tiny=TINY_OPTIONS)


class Swap(msgspec.Struct, frozen=True, kw_only=True):
    """As in `page/src/models/jit.ts`."""

    atS: float  # noqa: N815
    workload: str


class JitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """As in `page/src/models/jit.ts`."""

    initialMs: tuple[float, ...]  # noqa: N815
    ours: tuple[tuple[float, float], ...]
    peer: tuple[tuple[float, float], ...]
    swaps: tuple[Swap, ...]
    regressions: tuple[str, ...]
    measured: int
    spentMs: float  # noqa: N815
    endedS: float | None  # noqa: N815
    reason: str
    longTasksMs: tuple[float, ...]  # noqa: N815
    difference: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    case: NetworkCase
    offered: int
    answer: JitAnswer
    others_busy: float
    browser: str

    @property
    def initial_ms(self) -> float:
        return median(self.answer.initialMs)

    @property
    def best_ms(self) -> float:
        return median(elapsed for _, elapsed in self.answer.ours[-LAST:])

    @property
    def reached_s(self) -> float:
        """Since when the median of five inferences is near the best."""
        curve = self.answer.ours
        for i in range(len(curve) - 4):
            if median(elapsed for _, elapsed in curve[i : i + 5]) <= WITHIN * self.best_ms:
                return curve[i][0]
        return curve[-1][0]

    @property
    def worst(self) -> float:
        """The 95th percentile of inferences while it is tuned, over the initial median."""
        until = self.answer.endedS or float("inf")
        tuned = [elapsed for at, elapsed in self.answer.ours if at <= until]
        p95 = quantiles(tuned, n=20)[-1] if len(tuned) > 1 else tuned[0]
        return p95 / self.initial_ms


def measure(options: Namespace) -> Report:
    chosen = [case for case in (*CASES, *OTHERS, TINY) if case.name in options.only]
    held = []
    for case in chosen:
        with BenchSite.serving() as site, TemporaryDirectory() as folder:
            held.append(_measured(site, case, Path(folder), options))
    if options.curve is not None:
        curves = {each.case.name: msgspec.to_builtins(each.answer) for each in held}
        options.curve.write_text(json.dumps(curves) + "\n")
    described_machine = machine(
        browser=held[0].browser, seconds=options.seconds, rest=options.rest, **peer_versions()
    )
    return Report(
        name="models-jit",
        machine=described_machine,
        rows=[_row(each) for each in held],
        claims=[claim for each in held for claim in _claims(each)],
    )


def _measured(site: BenchSite, case: NetworkCase, folder: Path, options: Namespace) -> Measured:
    files = network_files(options.folder, case)
    untuned = Choices(file=folder / "none.json")
    prepared = prepare(site, files, untuned, folder, tune=False)
    offered = _offer(site, files, folder, options.each)
    address = publish(site, files, prepared.address)
    before = CpuUsage.now()
    answer, browser = _ask(site.url, address, options)
    return Measured(
        case=case,
        offered=offered,
        answer=answer,
        others_busy=CpuUsage.now().others_since(before),
        browser=browser,
    )


def _offer(site: BenchSite, network: NetworkFiles, folder: Path, each: int) -> int:
    """Publishes the queue; how many candidates it holds."""
    name = network.case.name
    ((calls,),) = (plan_model(network.onnx, [network.case.dimensions], name).calls,)
    flops = sum(call.flops for call in calls)
    lines: list[list[dict[str, Any]]] = []
    artifacts: dict[str, Artifact] = {}
    for call in calls:
        if call.flops < WORTH * flops:
            continue
        space = lite_space(call.workload, TargetKind.WASM)[:each]
        kernels = [described(candidate, None, artifacts) for candidate in space]
        lines.append(
            [
                {
                    "workload": call.workload.key,
                    "candidates": [{"kernel": kernel, "expected": None} for kernel in batch],
                    "cursor": "",
                }
                for batch in (kernels[i : i + BATCH] for i in range(0, len(kernels), BATCH))
            ]
        )
    for sha256, artifact in artifacts.items():
        file = folder / f"{sha256}.wasm"
        file.write_bytes(artifact.body)
        site.lend(f"{ZOO}/{name}/v1/artifacts/{sha256}.wasm", file)
    rounds = max(len(own) for own in lines)
    interleaved = [own[i] for i in range(rounds) for own in lines if i < len(own)]
    end = {"end": "complete", "retry_s": 0, "cursor": ""}
    text = "".join(f"{json.dumps(line)}\n" for line in [*interleaved, end])
    site.publish(f"{ZOO}/{name}/v1/models/{name}//candidates", text.encode())
    return sum(len(line["candidates"]) for line in interleaved)


def _ask(site_url: str, network: str, options: Namespace) -> tuple[JitAnswer, str]:
    asked = {
        "rest": options.rest,
        "seconds": options.seconds,
        "peerEvery": options.peer_every,
    }
    call = f"""async (asked) => {{
        const network = await (await fetch({json.dumps(network)})).json();
        return JSON.stringify(await kernelzooModels.jit({{ ...asked, network }}));
    }}"""
    with chromium() as browser, browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(CALL_MS)
        page.goto(f"{site_url}/models.html")
        page.wait_for_function("globalThis.kernelzooModels", timeout=30_000)
        try:
            answer = page.evaluate(call, asked)
        except Exception as error:
            raise CannotMeasure(f"the page failed: {str(error)[:400]}") from error
        return msgspec.json.decode(answer, type=JitAnswer), f"Chromium {browser.version}"


def _row(held: Measured) -> dict[str, Cell]:
    answer = held.answer
    peer = [elapsed for _, elapsed in answer.peer]
    return {
        "network": held.case.name,
        "initial_ms": held.initial_ms,
        "best_ms": held.best_ms,
        "gain": held.initial_ms / held.best_ms,
        "reached_s": held.reached_s,
        "ended_s": answer.endedS,
        "p95_of_initial": held.worst,
        "swaps": len(answer.swaps),
        "taken_back": len(answer.regressions),
        "offered": held.offered,
        "measured": answer.measured,
        "measuring_s": answer.spentMs / 1000,
        "long_tasks": len(answer.longTasksMs),
        "peer_ms": median(peer) if peer else None,
        "difference": answer.difference,
        "others_busy": held.others_busy,
    }


def _claims(held: Measured) -> Iterator[Claim]:
    name = held.case.name
    yield Claim.at_most(f"{name}: within 5 % of the best", held.reached_s, "s", REACHED_S)
    yield Claim.at_most(f"{name}: p95 while tuned", held.worst, "of the initial", WORSE)
    yield Claim.at_most(f"{name}: long tasks", len(held.answer.longTasksMs), "tasks", 0)
    yield Claim.at_most(f"{name}: difference to PyTorch", held.answer.difference, "", 1e-4)


if __name__ == "__main__":
    main()
