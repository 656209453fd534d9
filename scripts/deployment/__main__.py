"""Deploys a clone with a container engine, to a confirmed kernel.

    python -m scripts.deployment                 # everything, from a clone of what is committed
    python -m scripts.deployment --keep          # the stack stays up; Ctrl-C ends it
    python -m scripts.deployment --sizes         # how large the images are, too

Base images that the engine has not are made of Debian's archive and of wheels under the tags that
docker/Dockerfile and compose.yaml name, so that no registry of images is needed. `make compose`
then builds the four images and starts the stack with five browser agents, which tune a small
product of matrices until it is confirmed. Grafana is left out: Debian has no package of it.

Where no engine runs, root's Docker is started in a folder of its own (`apt-get install docker.io
debootstrap`). The environment says where packages come from, as for any build of the images:
DEBIAN_MIRROR, PIP_INDEX_URL, NPM_CONFIG_REGISTRY, and CA_CERTIFICATES, which is otherwise what this
machine's owner has put beside Debian's authorities.
"""

import signal
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from cli.stack.signals import interruptible
from kernelzoo.errors import KernelZooError
from scripts.deployment.bases import make_bases
from scripts.deployment.engine import STATE, running_engine
from scripts.deployment.stack import confirmed_kernel, deployed, sizes


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(prog="python -m scripts.deployment", description=__doc__.split("\n")[0])
    parser.add_argument("--keep", action="store_true", help="leave the stack up until Ctrl-C")
    parser.add_argument("--sizes", action="store_true", help="say how large the images are")
    parser.add_argument("--engine", type=Path, default=STATE, help="folder of an engine of its own")
    values = parser.parse_args(arguments)

    def say(sentence: str) -> None:
        print(f"· {sentence}", file=sys.stderr, flush=True)

    try:
        with interruptible(), running_engine(values.engine) as engine:
            make_bases(engine, say)
            with deployed(engine, say) as deployment:
                print(confirmed_kernel(deployment))
                for line in sizes(deployment) if values.sizes else ():
                    print(line)
                if values.keep:
                    say(f"{deployment.url}/console; Ctrl-C ends it")
                    signal.pause()
    except KeyboardInterrupt:
        say("ended")
    except KernelZooError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
