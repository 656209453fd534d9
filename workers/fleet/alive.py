"""A container's health check: `python -m workers.fleet.alive --state DIR`."""

import argparse
import sys
from pathlib import Path

from workers.fleet.status import FleetStatus, read_status

WITHOUT_PAGE = ("starting", "restarting")


def complaint(status: FleetStatus | None) -> str | None:
    """Returns what is wrong, or None while at least one agent has its page open."""
    if status is None:
        return "the fleet has not started an agent yet"
    if all(agent.state in WITHOUT_PAGE for agent in status.agents):
        return f"no agent has a page of {status.url} open"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m workers.fleet.alive", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="directory of the profiles")
    wrong = complaint(read_status(parser.parse_args().state))
    if wrong is not None:
        print(wrong, file=sys.stderr)
    return int(wrong is not None)


if __name__ == "__main__":
    sys.exit(main())
