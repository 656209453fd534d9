"""Tests write here what they throw away: into memory, where the machine has enough of it.

A test of the gateway makes and drops a database of some 300 files, and a stack makes a cluster: on
a disk most of their time goes into that.
"""

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 6 << 30


def keep_in_memory() -> None:
    """For this process and those below it, unless the environment names a folder."""
    if "TMPDIR" not in os.environ and _has_room(MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def _has_room(folder: Path) -> bool:
    """Containers often have 64 MiB there, and may forbid to run what lies there."""
    if not (folder.is_mount() and os.access(folder, os.W_OK)):
        return False
    may_run = not os.statvfs(folder).f_flag & os.ST_NOEXEC
    return may_run and shutil.disk_usage(folder).free >= ENOUGH_BYTES
