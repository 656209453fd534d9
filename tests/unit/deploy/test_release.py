"""Registries ask these of a release: one version, a licence by its SPDX name, sound metadata."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.metadata import Metadata
from packaging.version import Version

from kernelzoo import __version__
from scripts import version

ROOT = Path(__file__).parents[3]
SPDX = "Apache-2.0"


def test_every_part_has_the_one_version_and_it_is_semantic() -> None:
    found = list(version.written())
    assert {name for name, _ in found} == set(version.PLACES)
    assert [each for each in found if each[1] != __version__] == []
    assert version.SEMANTIC.fullmatch(__version__)
    assert str(Version(__version__)) == __version__


def test_a_new_version_is_written_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in version.PLACES:
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text((ROOT / name).read_text())
    monkeypatch.setattr(version, "ROOT", tmp_path)
    version.main(["7.8.9-rc.1"])
    found = list(version.written())
    assert {each for _, each in found} == {"7.8.9-rc.1"}
    assert len(found) > len(version.PLACES), "some files have several"
    for name in version.PLACES:
        left = re.findall(rf"(?<![\d.]){re.escape(__version__)}", (tmp_path / name).read_text())
        assert left == [], name
    with pytest.raises(SystemExit, match="no semantic version"):
        version.main(["v2"])


def test_every_part_names_the_licence_and_where_its_text_is() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert len(text.splitlines()) == 3
    assert f"SPDX-License-Identifier: {SPDX}" in text
    assert "https://www.apache.org/licenses/LICENSE-2.0" in text
    # npm packs the file of its own folder.
    assert (ROOT / "client/LICENSE").read_text() == text
    chart = yaml.safe_load((ROOT / "helm/kernelzoo/Chart.yaml").read_text())
    assert chart["annotations"]["artifacthub.io/license"] == SPDX
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (project["license"], project["license-files"]) == (SPDX, ["LICENSE"])


def test_changes_have_a_heading_for_what_comes_next() -> None:
    headings = re.findall(r"(?m)^## (.+)$", (ROOT / "CHANGELOG.md").read_text())
    assert headings[0] == "Unreleased"
    assert all(re.match(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)$", each) for each in headings[1:])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check")
    command = (sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder))
    subprocess.run((*command, str(ROOT)), check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def test_an_installed_wheel_runs_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    """It has an environment of its own, with the packages that are installed here."""
    venv.create(tmp_path / "venv", symlinks=True)
    python, command = (tmp_path / "venv/bin" / name for name in ("python", "kernelzoo"))

    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*arguments: str | Path) -> str:
        done = subprocess.run(
            arguments, cwd=tmp_path, env=own, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps",
        "--python", python, wheel)  # fmt: skip
    (packages,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    # What is editable here is not read there: a `.pth` names folders, not files like itself.
    (packages / "installed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    assert run(command, "--version") == f"kernelzoo {__version__}\n"
    assert "--agents" in run(command, "up", "--help")
    told = run(python, "-c", "from kernelzoo.settings import Settings\n"
               "print(Settings.model_fields['client_dist'].default)")  # fmt: skip
    client = Path(told.strip())
    assert client.is_relative_to(packages)
    built = ROOT / "client/dist"
    files = {each.relative_to(built) for each in built.rglob("*")}
    assert {each.relative_to(client) for each in client.rglob("*")} == files
    assert {"sdk.js", "agent.html", "console.html"} <= {each.name for each in files}


def test_a_wheel_has_metadata_that_a_registry_reads(wheel: Path) -> None:
    """`packaging` holds metadata to the rules that PyPI holds it to."""
    assert wheel.name == f"kernelzoo-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        folder = f"kernelzoo-{__version__}.dist-info"
        told = Metadata.from_email(archive.read(f"{folder}/METADATA"), validate=True)
        licence = archive.read(f"{folder}/licenses/LICENSE").decode()
        commands = archive.read(f"{folder}/entry_points.txt").decode()
    assert (told.name, str(told.version), told.license_expression) == (
        "kernelzoo",
        __version__,
        SPDX,
    )
    assert told.license_files == ["LICENSE"]
    assert told.description_content_type == "text/markdown"
    assert told.description is not None
    assert "KernelZoo" in told.description
    assert licence == (ROOT / "LICENSE").read_text()
    assert "kernelzoo = cli.app:main" in commands
    assert {name.partition("/")[0] for name in names} == {
        "cli",
        "client",
        "kernelzoo",
        "services",
        "workers",
        folder,
    }
    assert "kernelzoo/store/schema.sql" in names
