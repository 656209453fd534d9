"""`python -m workers.fleet --url U --browser B=N --target T --gpu G --state DIR`.

The operator's key comes from the environment variable KERNELZOO_OPERATOR_KEY, which keeps it out of
the process list.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import KernelZooError, StackError
from kernelzoo.telemetry import configure_logging
from workers.fleet.browsers import BrowserKind, parse_shares
from workers.fleet.gpu import GpuChoice
from workers.fleet.installed import insist_on
from workers.fleet.memory import SETTING
from workers.fleet.run import FleetOptions, run_fleet

LEAST_MIB = 512


def parse(arguments: Sequence[str], operator_key: str | None) -> FleetOptions:
    """Raises StackError for options that no fleet can run with."""
    parser = argparse.ArgumentParser(prog="python -m workers.fleet", description=__doc__)
    parser.add_argument("--url", required=True, help="origin of the gateway")
    parser.add_argument(
        "--browser", action="append", help="chromium, firefox or webkit, as in firefox=2"
    )
    parser.add_argument("--agents", type=int, default=1, help="of each browser without a number")
    parser.add_argument("--target", type=TargetKind, action="append", help="wasm, webgpu or both")
    parser.add_argument("--gpu", type=GpuChoice, default=GpuChoice.AUTO, help="adapter of webgpu")
    parser.add_argument("--state", type=Path, required=True, help="directory of the profiles")
    parser.add_argument(
        "--turns", type=Path, help="directory by which fleets of one host take turns; shared"
    )
    parser.add_argument("--fresh", action="store_true", help="take profiles of this run alone")
    parser.add_argument(
        "--parent", type=int, help="end when this process, which has started it, ends"
    )
    parser.add_argument(
        "--without-sandbox",
        action="store_true",
        help="rely on the container: engines forbid the user namespaces of Chromium's sandbox",
    )
    parser.add_argument(
        "--memory-mib",
        type=int,
        default=os.environ.get(SETTING),
        help=f"of all browsers together; else {SETTING}, else half of the machine's memory",
    )
    parser.add_argument(
        "--authorities", type=Path, help="certificates (PEM) that Chromium trusts beside its own"
    )
    values = parser.parse_args(arguments)
    if values.memory_mib is not None and values.memory_mib < LEAST_MIB:
        raise StackError(f"a browser needs {LEAST_MIB} MiB at least, not {values.memory_mib}")
    if values.agents < 1:
        raise StackError(f"a fleet needs at least one agent, not {values.agents}")
    if not operator_key:
        raise StackError("set KERNELZOO_OPERATOR_KEY to the operator's key of the gateway")
    directory = values.state.expanduser().resolve()
    return FleetOptions(
        url=values.url.rstrip("/"),
        shares=parse_shares(values.browser or (BrowserKind.CHROMIUM,), values.agents),
        targets=tuple(values.target or (TargetKind.WASM,)),
        gpu=values.gpu,
        directory=directory,
        turns=(values.turns or directory).expanduser().resolve(),
        operator_key=operator_key,
        sandbox=not values.without_sandbox,
        fresh=values.fresh,
        parent=values.parent,
        memory_mib=values.memory_mib,
        authorities=values.authorities,
    )


def main() -> int:
    configure_logging(as_json=True)
    try:
        options = parse(sys.argv[1:], os.environ.get("KERNELZOO_OPERATOR_KEY"))
        insist_on(options.shares)
        asyncio.run(run_fleet(options))
    except KernelZooError as error:
        print(f"the fleet did not start: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
