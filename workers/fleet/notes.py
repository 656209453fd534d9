"""What an agent page keeps in localStorage, kept beside the profile as well.

An automated MiniBrowser forgets everything when it ends (WebKitGTK 2.50.6), and Firefox writes what
a page keeps only after a while: an agent that is killed would come back as somebody else.
"""

import json
from contextlib import suppress
from pathlib import Path

MEASURED = ("kernelzoo:probe:", "kernelzoo:levels:", "kernelzoo:gpu-probe:")
"""Beginnings of the keys under which a page keeps what it measured of its device. The rest of a key
names the engine and its version (client/src/device/profile.ts, gpu-profile.ts)."""


def offered_notes(profile: Path) -> dict[str, str]:
    """The agent's own notes, and for what it has not measured itself the probes of the other agents
    of the fleet. They run on one host, so they are one device: two agents whose probes were
    disturbed differently would vote in two device classes, and neither class has a quorum then.
    """
    measured = {
        key: note
        for other in sorted(profile.parent.iterdir())
        for key, note in _notes(other).items()
        if key.startswith(MEASURED)
    }
    return measured | _notes(profile)


def _notes(profile: Path) -> dict[str, str]:
    """Empty where the agent has kept none yet."""
    with suppress(OSError, ValueError):
        return {str(key): str(note) for key, note in json.loads(_file(profile).read_text()).items()}
    return {}


def write_notes(profile: Path, text: str) -> None:
    """`text` is JSON. Readers see either the old or the new file, never half of one."""
    draft = _file(profile).with_suffix(".draft")
    draft.write_text(text)
    draft.rename(_file(profile))


def _file(profile: Path) -> Path:
    return profile / "notes.json"
