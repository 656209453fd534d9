"""The Dockerfile: what the linter says, and that its images run what `kernelzoo up` runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.stack.place import Keys, Place
from cli.stack.plan import StackOptions, plan_stack

ROOT = Path(__file__).parents[3]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
TEXT = DOCKERFILE.read_text()
IMAGES = ("gateway", "compile", "aggregate", "fleet")

# What `kernelzoo up` says of its own machine.
LOCAL = {"--host", "--port", "-c", "-s"}


def _lint(file: Path) -> subprocess.CompletedProcess[str]:
    linter = Path(sys.executable).with_name("hadolint")
    return subprocess.run([linter, file], capture_output=True, text=True, check=False)


def _stage(image: str) -> str:
    """The last stage of an image, with its lines joined."""
    found = re.search(
        rf"^FROM python AS {image}\n(.*?)(?=^FROM |\Z)", TEXT, re.MULTILINE | re.DOTALL
    )
    assert found is not None
    return found[1].replace("\\\n", "")


def _instruction(image: str, name: str) -> list[str]:
    """The words of an instruction in its JSON form."""
    (found,) = re.findall(rf"^{name} .*?(\[.*\])$", _stage(image), re.MULTILINE)
    words: list[str] = json.loads(found)
    return words


def _portable(command: list[str]) -> list[str]:
    """Without options that depend on the machine, and without the program's path."""
    words, kept = iter(command[1:]), []
    for word in words:
        if word in LOCAL:
            next(words)
        elif word != "-B":
            kept.append(word)
    return kept


def test_the_linter_has_nothing_against_it() -> None:
    said = _lint(DOCKERFILE)
    assert (said.returncode, said.stdout) == (0, "")


def test_the_linter_finds_what_it_should(tmp_path: Path) -> None:
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM debian:latest\nRUN cd /tmp\n")
    assert "DL3007" in _lint(bad).stdout


def test_bases_are_pinned_to_a_release() -> None:
    bases = re.findall(r"^ARG \w+=(\S+:\S+)$", TEXT, re.MULTILINE)
    assert len(bases) == 2
    for base in bases:
        assert re.fullmatch(r"[a-z]+:\d+\.\d+(\.\d+)?(-[a-z]+)+", base), base


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_as_nobody_in_particular_and_is_checked(image: str) -> None:
    assert re.findall(r"^USER (\S+)$", _stage(image), re.MULTILINE) == ["10001:10001"]
    assert _instruction(image, "HEALTHCHECK")[0] == "python"


@pytest.mark.parametrize("image", ["gateway", "compile", "aggregate"])
def test_an_image_runs_what_the_local_stack_runs(image: str) -> None:
    options = StackOptions(host="127.0.0.1", port=8787, redis_port=1)
    plan = plan_stack(
        Place(root=Path("/s")), Keys(operator="o", token_secret="t", signing="s"), "", options
    )
    (spec,) = (spec for spec in plan if spec.name == image)
    assert sorted(_portable(_instruction(image, "CMD"))) == sorted(_portable([*spec.command]))
