"""Directories that a command empties before it starts: only those that it made itself."""

import shutil

from cli.stack.descendants import kill_leftovers
from cli.stack.place import Place
from cli.stack.record import read_record, refuse_running
from cli.terminal import note
from kernelzoo.errors import StackError


def empty(place: Place, mark: str) -> None:
    """Removes what an earlier run left. Refuses a directory without the file `mark` in it."""
    refuse_running(place)
    if place.root.exists() and any(place.root.iterdir()):
        if not (place.root / mark).exists():
            raise StackError(
                f"{place.root} holds something else than a {mark}'s data; "
                "name a new directory with --state DIR"
            )
        kill_leftovers(read_record(place))
        note(f"emptying {place.root}")
        shutil.rmtree(place.root)
    place.make()
    (place.root / mark).touch()
