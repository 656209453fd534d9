"""What an agent page keeps in localStorage, kept beside the profile as well.

An automated MiniBrowser forgets everything when it ends (WebKitGTK 2.50.6), and Firefox writes what
a page keeps only after a while: an agent that is killed would come back as somebody else.
"""

import json
from contextlib import suppress
from pathlib import Path


def read_notes(profile: Path) -> dict[str, str]:
    """None yet is an empty value."""
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
