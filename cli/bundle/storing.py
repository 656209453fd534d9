"""A bundle as a folder, or as a zip file."""

import zipfile
import zlib
from pathlib import Path

from cli.bundle.contents import Files
from kernelzoo.errors import InvalidInput

ZIP = ".zip"
MOST_BYTES = 1 << 32
"""The bytes of a bundle that is unpacked; weights of a model are most of it."""


def write(files: Files, output: Path) -> None:
    """A folder that is new or empty, or a zip file. The same files make the same bytes. Raises
    InvalidInput for a folder that holds anything.
    """
    if output.suffix == ZIP:
        with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(files):
                info = zipfile.ZipInfo(path)
                info.external_attr = 0o644 << 16
                archive.writestr(info, files[path], zipfile.ZIP_DEFLATED)
        return
    if output.is_dir() and any(output.iterdir()):
        raise InvalidInput(f"{output} is not empty; name a new folder, or a file that ends in .zip")
    for path, body in files.items():
        file = output / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)


def read(place: Path) -> dict[str, bytes]:
    """Raises InvalidInput for what is neither a folder nor a zip file, or too large to be one."""
    if place.is_dir():
        return {
            file.relative_to(place).as_posix(): file.read_bytes()
            for file in place.rglob("*")
            if file.is_file()
        }
    try:
        with zipfile.ZipFile(place) as archive:
            if sum(each.file_size for each in archive.infolist()) > MOST_BYTES:
                raise InvalidInput(f"{place} unpacks to more than {MOST_BYTES} bytes")
            return {name: archive.read(name) for name in archive.namelist()}
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        # A RuntimeError is a file that is encrypted, or packed as Python does not know.
        raise InvalidInput(f"{place} is no bundle, or it was damaged: {error}") from error
