"""Measures what five browsers of an operator end with, through the real stack.

    python -m bench.crowd.finals_browsers [--json FILE] [--kept FILE] [--operators …] [--keys N]

A zoo as of `kernelzoo up --agents 5` is given keys of five operators, five at a time. When all of
them are final and the agents are at rest, a referee compares what is served of each with its
default and with whatever its agents, or a first page of its own with all that they measured, found
nearly as fast (`bench.crowd.referee`), in a browser of its own.

With `--kept` each key is written down as soon as it is judged: a run that was interrupted goes on
where it ended, at the same commit.
"""

import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from bench.browser import BenchBrowser, bench_browser
from bench.busy import CpuUsage
from bench.crowd.judged_keys import JudgedKey, KeptKeys, TunedKey, claims
from bench.crowd.referee import (
    ROUNDS,
    SCREENED_ROUNDS,
    Judgement,
    RefereePage,
    referee_page,
)
from bench.kernels.page_lease import CompiledKernel
from bench.options import parser, run
from bench.report import CannotMeasure, Report, machine
from bench.serving.fresh_stack import fresh_stack
from bench.site import BenchSite
from bench.workloads import case
from cli.gateway_client import GatewayClient
from cli.simulate.run import settle
from cli.stack.plan import OWN_AGENTS, FleetPlan, plan_fleet
from cli.stack.supervisor import Stack, tended
from cli.terminal import live_display, note, notes
from cli.tune import Until, winners_of
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.trust import Trust
from kernelzoo.domain.workload import Workload
from kernelzoo.store import ballots, candidates, zoo
from kernelzoo.store.blocking import Database, connected, fetch_all, fetch_one
from kernelzoo.store.query import Query
from services.gateway import manifests
from services.gateway.wire.jobs import Job
from workers.fleet.status import AgentStatus, read_status

AGENTS = 5
QUORUM = 5
AT_ONCE = 5
"""Keys that are open together, as who runs a zoo registers several: one of each operator."""
PAGES = 8
"""Pages of the referee for each key; as many again where these do not tell whether it is within
1 % of the best."""
PAIRED_ROUNDS = 5
"""The fewest that a ballot of paired rounds rests on."""

KEYS: Mapping[str, tuple[str, ...]] = {
    "matmul": (
        "matmul:f32:m128k128n128",
        "matmul:f32:m32k256n256",
        "matmul:f32:m49k384n384",
        "matmul:f32:m196k192n192",
        "matmul:f32:m1k768n768",
        "matmul:f32:m64k256n512",
        "matmul:f32:m128k64n384",
        "matmul:f32:m16k512n512",
    ),
    "conv2d": (
        "conv2d+bias+relu:f32:b1h32w32c16o32kh3kw3stride1pad1",
        "conv2d+bias+relu:f32:b1h28w28c64o64kh3kw3stride1pad1",
        "conv2d+bias+relu:f32:b1h14w14c128o128kh3kw3stride1pad1",
        "conv2d+bias+relu:f32:b1h64w64c3o32kh3kw3stride2pad1",
        "conv2d+bias+relu:f32:b1h28w28c32o192kh1kw1stride1pad0",
        "conv2d+bias+relu:f32:b1h14w14c96o576kh1kw1stride1pad0",
        "conv2d+bias+relu:f32:b1h7w7c160o960kh1kw1stride1pad0",
        "conv2d+bias+relu:f32:b1h28w28c64o128kh1kw1stride2pad0",
    ),
    "depthwise_conv2d": (
        "depthwise_conv2d:f32:b1h56w56c96kh3kw3stride1pad1",
        "depthwise_conv2d:f32:b1h28w28c144kh3kw3stride1pad1",
        "depthwise_conv2d:f32:b1h28w28c192kh3kw3stride2pad1",
        "depthwise_conv2d:f32:b1h14w14c384kh3kw3stride1pad1",
        "depthwise_conv2d:f32:b1h14w14c576kh3kw3stride2pad1",
        "depthwise_conv2d:f32:b1h7w7c960kh3kw3stride1pad1",
        "depthwise_conv2d:f32:b1h112w112c16kh3kw3stride1pad1",
        "depthwise_conv2d:f32:b1h14w14c240kh5kw5stride1pad2",
    ),
    "softmax": (
        "softmax:f32:m128n128",
        "softmax:f32:m384n384",
        "softmax:f32:m768n128",
        "softmax:f32:m1536n64",
        "softmax:f32:m128n1000",
        "softmax:f32:m196n196",
        "softmax:f32:m512n32",
        "softmax:f32:m64n2048",
    ),
    "gelu": (
        "gelu:f32:n16384",
        "gelu:f32:n24576",
        "gelu:f32:n49152",
        "gelu:f32:n65536",
        "gelu:f32:n98304",
        "gelu:f32:n147456",
        "gelu:f32:n196608",
        "gelu:f32:n393216",
    ),
}
"""Layers of MobileNetV2, ResNet and small transformers: a call takes 2 ms at most."""

QUIET_S = 8.0
"""An agent between two leases says nothing for less."""
IDLE_S = 120.0
"""A key is given up where nothing happens for so long. The browsers start within it."""
POLL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCountRow:
    measurements: int
    samples: int


def main() -> None:
    options = parser("What five browsers of an operator end with, by a referee.")
    options.add_argument("--operators", nargs="+", choices=list(KEYS), default=list(KEYS))
    options.add_argument(
        "--keys", type=int, choices=range(1, 9), default=8, help="of each operator"
    )
    options.add_argument("--agents", type=int, default=AGENTS)
    options.add_argument(
        "--pages",
        type=int,
        choices=range(2, 101),
        metavar="N",
        default=PAGES,
        help="of the referee, of each key",
    )
    options.add_argument("--kept", type=Path, metavar="FILE", help="keep judged keys there, too")
    tiny = ("--operators", "softmax", "--keys", "1", "--agents", "1", "--pages", "2")
    run(options, measure, tiny=tiny)


def measure(options: Namespace) -> Report:
    kept = KeptKeys.opened(options.kept)
    wanted = [KEYS[each][n] for n in range(options.keys) for each in options.operators]
    try:
        if left := kept.left(wanted):
            _judge(left, kept, options.agents, options.pages)
    except KeyboardInterrupt:
        if not kept.judged:
            raise
        print("interrupted: the report has the keys that were judged", file=sys.stderr)
    return Report(
        name="finals_browsers",
        machine=machine(agents=options.agents, pages=options.pages),
        rows=[each.row() for each in kept.judged],
        claims=list(claims(kept.judged)),
    )


def _judge(workloads: Sequence[str], kept: KeptKeys, agents: int, pages: int) -> None:
    """Tunes all and has them judged, and adds each to what is kept."""
    quorum = ("KERNELZOO_QUORUM", str(min(agents, QUORUM)))
    with fresh_stack((OWN_AGENTS, quorum)) as stack, ExitStack() as opened:
        stack.launch(plan_fleet(stack.place, stack.keys, stack.url, FleetPlan.chromium(agents)))
        opened.enter_context(tended(stack))
        gateway = opened.enter_context(
            GatewayClient(url=stack.url, operator_key=stack.keys.operator)
        )
        site = opened.enter_context(BenchSite.serving())
        referee = Referee(
            db=opened.enter_context(connected(stack.postgres.url)),
            gateway=gateway,
            site=site,
            browser=opened.enter_context(bench_browser(site.url)),
            pages=pages,
        )
        for first in range(0, len(workloads), AT_ONCE):
            batch = workloads[first : first + AT_ONCE]
            jobs = [gateway.register(Workload.parse(each), TargetKind.WASM) for each in batch]
            _await_rest(stack, gateway, batch)
            settle(stack)
            device_class = _device_class(stack)
            for job in jobs:
                key = _tuned(referee.db, gateway, gateway.job(job.job), device_class)
                kept.add(referee.judged(key))
                note(f"{len(kept.judged)}: {kept.judged[-1].sentence}")


def _await_rest(stack: Stack, gateway: GatewayClient, workloads: Sequence[str]) -> None:
    """Returns once all are final and the agents are at rest, or where nothing happens any more."""
    seen: Sequence[tuple[int, int, int]] = ()
    seen_s = time.monotonic()
    with live_display(notes) as show:
        while True:
            told = [(a.measured, a.failed, a.ballots) for a in _agents(stack)]
            now_s = time.monotonic()
            seen, seen_s = (seen, seen_s) if told == seen else (told, now_s)
            entries = gateway.entries()
            final = sum(
                bool(winners_of(each, (TargetKind.WASM,), entries, Until.FINAL))
                for each in workloads
            )
            if now_s - seen_s > (QUIET_S if final == len(workloads) else IDLE_S):
                return
            show(
                f"{final} of {len(workloads)} keys final; {len(told)} agents made "
                f"{sum(measured for measured, _, _ in told)} measurements in all",
                None,
            )
            time.sleep(POLL_S)


def _agents(stack: Stack) -> tuple[AgentStatus, ...]:
    status = read_status(stack.place.fleet)
    return () if status is None else status.agents


def _device_class(stack: Stack) -> DeviceClass:
    """Returns the class of most agents. Raises CannotMeasure where none has any."""
    classes = Counter(agent.device_class for agent in _agents(stack) if agent.device_class)
    if not classes:
        raise CannotMeasure(f"no agent came; read {stack.log('fleet')}")
    ((most, _),) = classes.most_common(1)
    return DeviceClass.parse(most)


def _tuned(db: Database, gateway: GatewayClient, job: Job, device_class: DeviceClass) -> TunedKey:
    """Reads what the stack serves and knows of a key. Raises CannotMeasure where nothing is
    compiled."""
    manifest = gateway.manifest(job.workload, str(device_class))
    served = manifest.entries[0].wasm if manifest.entries else None
    if served is None:
        raise CannotMeasure(f"no kernel of {job.workload} is compiled")
    entries = [e for e in gateway.entries(job.workload) if e.device_class == str(device_class)]
    rows = fetch_all(db, ballots.countable(job.workload, device_class, Trust.CROWD))
    cast = tuple(row.to_cast() for row in rows)
    counted = fetch_one(db, _counted(job.job))
    assert counted is not None
    paired = sum(
        PAIRED_ROUNDS * (len(each.paired_times) + 1) for each in cast if each.ballot.paired
    )
    versions = fetch_all(db, zoo.versions(device_class))
    return TunedKey(
        workload=job.workload,
        candidates=job.candidates,
        measurements=counted.measurements,
        samples=counted.samples + paired,
        served=served.kernel.candidate,
        default=served.fallback.candidate,
        final=any(entry.final for entry in entries),
        contenders=tuple(name for entry in entries for name in entry.contenders),
        versions=sum(row.workload_key == job.workload for row in versions),
        cast=cast,
    )


def _counted(job_id: int) -> Query[SampleCountRow]:
    return Query(
        sql="""
            SELECT count(*)::integer AS measurements,
                   coalesce(sum(cardinality(samples_ns) + cardinality(reference_ns)), 0)::integer
                       AS samples
            FROM measurement WHERE job_id = %(job)s
        """,
        parameters={"job": job_id},
        row=SampleCountRow,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Referee:
    """Judges the keys of one stack in `pages` each, and in as many again where these do not tell.
    Kernels are those that the gateway serves.
    """

    db: Database
    gateway: GatewayClient
    site: BenchSite
    browser: BenchBrowser
    pages: int

    def judged(self, key: TunedKey) -> JudgedKey:
        kernels = {name: self._published(name) for name in key.measured}
        screened = self._page(key, kernels, seed=0, rounds=SCREENED_ROUNDS)
        close = {name: kernels[name] for name in key.close(screened)}
        before = CpuUsage.now()
        judged = JudgedKey(
            key=key,
            screened=screened,
            pages=tuple(self._page(key, close, seed) for seed in range(self.pages)),
            others_busy=CpuUsage.now().others_since(before),
        )
        if judged.judgement is not Judgement.OPEN:
            return judged
        more = (self._page(key, close, self.pages + seed) for seed in range(self.pages))
        pages = (*judged.pages, *more)
        return replace(judged, pages=pages, others_busy=CpuUsage.now().others_since(before))

    def _page(
        self,
        key: TunedKey,
        kernels: Mapping[str, CompiledKernel],
        seed: int,
        rounds: int = ROUNDS,
    ) -> RefereePage:
        asked = case(key.workload, key.workload, 1.0)
        reference, compared = kernels[key.default], tuple(kernels.values())
        return referee_page(self.browser, asked, reference, compared, seed, rounds)

    def _published(self, candidate_id: str) -> CompiledKernel:
        """Publishes the files of a candidate's kernel for the referee's pages."""
        (row,) = fetch_all(self.db, candidates.kernels([candidate_id]))
        kernel = manifests.kernel_of(row)
        for file in (kernel, *(layout.pack for layout in kernel.layouts)):
            self.site.publish(file.url, self.gateway.artifact(file))
        artifact = Artifact.of(self.gateway.artifact(kernel), row.manifest)
        return CompiledKernel(name=candidate_id, artifact=artifact)


if __name__ == "__main__":
    main()
