"""The stack of compose.yaml in a clone of what is committed, and what its fleet finds."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from cli.stack.ports import LOOPBACK, free_port
from scripts.deployment.commands import output, shown
from scripts.deployment.debian import MIRROR, mirror

ROOT = Path(__file__).parents[2]
SERVICES = ("gateway", "compile", "aggregate", "clock", "fleet", "prometheus")
LOCAL_AUTHORITIES = Path("/usr/local/share/ca-certificates")
PROJECT = "kernelzoo-deployment"
WORKLOAD = ("matmul", "48x64x64")
QUORUM = 5
LONGEST_S = "2400"
"""For the kernel: twenty times what it takes on two cores with nothing else to do."""
IDLE_S = "300"
"""A machine with much else to do is slow, and advances; one that does not for so long is dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A stack that runs: its folder, its gateway, and the environment of `docker compose`."""

    clone: Path
    url: str
    prometheus_url: str
    env: Mapping[str, str]

    def operator_key(self) -> str:
        lines = (self.clone / ".env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)["KERNELZOO_OPERATOR_KEY"]


@contextmanager
def deployed(engine: Mapping[str, str], say: Callable[[str], None]) -> Iterator[Deployment]:
    """The stack of a clone of what is committed here, by the command of `make compose`."""
    with TemporaryDirectory(prefix="kernelzoo-clone-") as name:
        clone, port, prometheus_port = Path(name) / "kernelzoo", free_port(), free_port()
        output("git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", clone)
        env = {
            **engine,
            MIRROR: mirror(),
            "CA_CERTIFICATES": _authorities(),
            "COMPOSE_PROJECT_NAME": PROJECT,
            "COMPOSE_PROFILES": "fleet",
            "FLEET_AGENTS": str(QUORUM),
            "KERNELZOO_PORT": str(port),
            "PROMETHEUS_PORT": str(prometheus_port),
        }
        deployment = Deployment(
            clone=clone,
            url=f"http://{LOOPBACK}:{port}",
            prometheus_url=f"http://{LOOPBACK}:{prometheus_port}",
            env=env,
        )
        say("make compose")
        try:
            shown("make", "compose", f"ARGS={' '.join(SERVICES)}", env=env, cwd=clone)
            yield deployment
        except BaseException:
            print(compose(deployment, "logs", "--no-color", "--tail", "20"), file=sys.stderr)
            raise
        finally:
            compose(deployment, "down", "--volumes", "--timeout", "5")


def _authorities() -> str:
    """CA_CERTIFICATES, else those that this machine's owner trusts beside Debian's."""
    named = os.environ.get("CA_CERTIFICATES")
    files = sorted(LOCAL_AUTHORITIES.glob("*.crt"))
    return named if named is not None else "\n".join(file.read_text() for file in files)


def compose(deployment: Deployment, *words: str) -> str:
    """Returns what `docker compose` says of the stack."""
    return output("docker", "compose", *words, env=deployment.env, cwd=deployment.clone)


def confirmed_kernel(deployment: Deployment) -> str:
    """Returns what `kernelzoo tune` says of a kernel that the fleet of the stack has confirmed. How
    far it is goes to standard error meanwhile. Raises StackError once nothing advances any more.
    """
    env = {**os.environ, "KERNELZOO_OPERATOR_KEY": deployment.operator_key()}
    limits = ("--until", "confirmed", "--timeout", LONGEST_S, "--idle", IDLE_S)
    return output(
        *(sys.executable, "-m", "cli", "tune", *WORKLOAD, *limits, "--url", deployment.url),
        env=env,
        shows_progress=True,
    )


def sizes(deployment: Deployment) -> Iterator[str]:
    """Each of the four images with its megabytes: as the engine counts them, and packed by gzip."""
    tags = sorted(set(compose(deployment, "config", "--images").split()))
    for tag in (tag for tag in tags if tag.startswith("kernelzoo-")):
        size = ("docker", "image", "inspect", "--format", "{{.Size}}", tag)
        plain_mb = int(output(*size, env=deployment.env)) / 1e6
        yield f"{tag}: {plain_mb:.0f} MB, {_packed_bytes(tag, deployment.env) / 1e6:.0f} MB packed"


def _packed_bytes(tag: str, env: Mapping[str, str]) -> int:
    saved = subprocess.Popen(("docker", "save", tag), env=env, stdout=subprocess.PIPE)
    packed = subprocess.run(("gzip", "-6"), stdin=saved.stdout, capture_output=True, check=True)
    return len(packed.stdout)
