"""Packages of Debian's archive: where this machine gets them, and a root of a release."""

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from kernelzoo.errors import StackError
from scripts.deployment.commands import output

MIRROR = "DEBIAN_MIRROR"
# Debian's own slim images leave the same out.
UNREAD = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "var/cache/apt")
SLIM = "".join(f"path-exclude=/{each}/*\n" for each in UNREAD[:4])
CLEAN = """\
Acquire::Languages "none";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb || true"; };
"""


def mirror() -> str:
    """DEBIAN_MIRROR, else the archive that apt of this machine reads. Raises StackError."""
    if named := os.environ.get(MIRROR):
        return named
    format_ = ("--format", "$(REPO_URI)")
    found = output("apt-get", "indextargets", *format_, "Created-By: Packages", "Origin: Debian")
    if not found:
        raise StackError(
            f"apt knows no archive of Debian; run `apt-get update`, or set {MIRROR} to one"
        )
    return found.splitlines()[0].rstrip("/")


def make_root(folder: Path, release: str) -> None:
    """A minimal Debian in `folder`, without documentation and translations."""
    output("debootstrap", "--variant=minbase", release, folder, mirror())
    (folder / "etc/dpkg/dpkg.cfg.d/slim").write_text(SLIM)
    (folder / "etc/apt/apt.conf.d/slim").write_text(CLEAN)
    for unread in UNREAD:
        shutil.rmtree(folder / unread)
        (folder / unread).mkdir()
    for lists in (folder / "var/lib/apt/lists").iterdir():
        shutil.rmtree(lists) if lists.is_dir() else lists.unlink()


def unpack(package: str, release: str, folder: Path) -> None:
    """The files of a package of another release than this machine's, and of no dependency."""
    with TemporaryDirectory() as name:
        place = Path(name)
        for each in ("lists/partial", "cache/archives/partial"):
            (place / each).mkdir(parents=True)
        (place / "sources.list").write_text(f"deb {mirror()} {release} main\n")
        apt = (
            "apt-get",
            *("-o", f"Dir::Etc::sourcelist={place}/sources.list", "-o", "Dir::Etc::sourceparts=-"),
            *("-o", f"Dir::State::Lists={place}/lists", "-o", f"Dir::Cache={place}/cache"),
            *("-o", "APT::Sandbox::User=root"),
        )
        output(*apt, "update")
        output(*apt, "download", package, cwd=place)
        (archive,) = place.glob("*.deb")
        output("dpkg-deb", "--extract", archive, folder)
