"""States what a stack consists of, as a value. `supervisor` carries it out."""

import os
import sys
from dataclasses import dataclass
from typing import Self

from cli.stack.monitoring import MonitoringPlan, exported, plan_monitoring
from cli.stack.place import Keys, Place
from cli.stack.ports import LOOPBACK, local_url
from cli.stack.processes import Environment, ProcessSpec, Tier
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.trust import Trust
from workers.fleet.browsers import BrowserKind, Share
from workers.fleet.gpu import GpuChoice

OWN_AGENTS = ("KERNELZOO_MAX_MALICIOUS_SHARE", "0")
"""The setting of a stack that nobody else's agents reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """Says which browsers and how many, what they measure, and what webgpu runs on."""

    shares: tuple[Share, ...]
    targets: tuple[TargetKind, ...] = (TargetKind.WASM,)
    gpu: GpuChoice = GpuChoice.AUTO
    fresh: bool = False

    @classmethod
    def chromium(
        cls,
        agents: int,
        targets: tuple[TargetKind, ...] = (TargetKind.WASM,),
        gpu: GpuChoice = GpuChoice.AUTO,
    ) -> Self:
        share = Share(browser=BrowserKind.CHROMIUM, agents=agents)
        return cls(shares=(share,), targets=targets, gpu=gpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOptions:
    """`trust`: whose measurements are taken; a stack of one's own machine or network takes those of
    whoever reaches it. `overrides` are further settings, by the names of environment variables.
    """

    host: str
    port: int
    redis_port: int
    fleet: FleetPlan | None = None
    monitoring: MonitoringPlan | None = None
    compile_processes: int = 2
    trust: Trust = Trust.CROWD
    overrides: Environment = ()

    @property
    def url(self) -> str:
        return local_url(self.host, self.port)


def plan_stack(
    place: Place, keys: Keys, database_url: str, options: StackOptions
) -> tuple[ProcessSpec, ...]:
    """Every process of the stack but PostgreSQL, in the order in which they start."""
    env = _environment(place, keys, database_url, options)
    services = (
        _gateway(place, env, options),
        _compile_worker(place, env, options.compile_processes),
        _aggregate_worker(place, env),
    )
    watched = options.monitoring
    return (
        _redis(place, options.redis_port),
        *(exported(each, place, watched) if watched else each for each in services),
        *(plan_monitoring(place, database_url, options.url, watched) if watched else ()),
        *([plan_fleet(place, keys, options.url, options.fleet)] if options.fleet else []),
    )


def plan_fleet(
    place: Place, keys: Keys, url: str, fleet: FleetPlan, number: int = 1
) -> ProcessSpec:
    """The operator's key travels in the environment, never on the command line. `number`: of the
    fleets of one directory, which take turns to time. It ends with this process.
    """
    directory = place.fleet_of(number)
    return ProcessSpec(
        name=directory.name,
        tier=Tier.FLEET,
        command=(
            *_python("workers.fleet"),
            *("--url", url, "--state", str(directory), "--turns", str(place.fleet)),
            *(word for share in fleet.shares for word in ("--browser", str(share))),
            *(word for target in fleet.targets for word in ("--target", target.value)),
            *("--gpu", fleet.gpu.value),
            *(("--fresh",) if fleet.fresh else ()),
            *("--parent", str(os.getpid())),
        ),
        env=(("KERNELZOO_OPERATOR_KEY", keys.operator),),
        log=place.log(directory.name),
        grace_s=15,
    )


def _environment(place: Place, keys: Keys, database_url: str, options: StackOptions) -> Environment:
    return (
        ("KERNELZOO_DATABASE_URL", database_url),
        ("KERNELZOO_REDIS_URL", f"redis://{LOOPBACK}:{options.redis_port}/0"),
        ("KERNELZOO_OPERATOR_KEY", keys.operator),
        ("KERNELZOO_TOKEN_SECRET", keys.token_secret),
        ("KERNELZOO_SIGNING_KEY", keys.signing),
        ("KERNELZOO_MODELS_DIR", str(place.models)),
        ("KERNELZOO_STANDBY_DIR", str(place.standby)),
        ("KERNELZOO_TRUST", options.trust),
        *options.overrides,
    )


def _python(module: str) -> tuple[str, ...]:
    return (sys.executable, "-m", module)


def _redis(place: Place, port: int) -> ProcessSpec:
    """Redis holds messages and caches only, so it writes nothing to disk."""
    return ProcessSpec(
        name="redis",
        tier=Tier.BROKER,
        command=(
            "redis-server",
            *("--bind", LOOPBACK, "--port", str(port), "--dir", str(place.redis)),
            *("--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"),
        ),
        env=(),
        log=place.log("redis"),
        grace_s=5,
    )


def _gateway(place: Place, env: Environment, options: StackOptions) -> ProcessSpec:
    return ProcessSpec(
        name="gateway",
        tier=Tier.SERVICE,
        command=(
            *_python("services.gateway"),
            *("--host", options.host, "--port", str(options.port)),
        ),
        env=env,
        log=place.log("gateway"),
        grace_s=8,
    )


_CELERY_READY = " ready."
_CELERY = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "info")


def _compile_worker(place: Place, env: Environment, processes: int) -> ProcessSpec:
    return _worker("compile", place, env, "-c", str(processes))


def _aggregate_worker(place: Place, env: Environment) -> ProcessSpec:
    """One process, with the clock of the periodic tasks inside."""
    clock = ("-B", "-s", str(place.root / "celerybeat-schedule"))
    return _worker("aggregate", place, env, *clock, "-c", "1")


def _worker(queue: str, place: Place, env: Environment, *options: str) -> ProcessSpec:
    """A worker is called like the queue that it serves."""
    return ProcessSpec(
        name=queue,
        tier=Tier.SERVICE,
        command=(
            *_python("celery"),
            *("-A", "workers.app", "worker", "-Q", queue, *options),
            *("-n", f"{queue}@%h", *_CELERY),
        ),
        env=env,
        log=place.log(queue),
        grace_s=15,
        ready_text=_CELERY_READY,
    )
