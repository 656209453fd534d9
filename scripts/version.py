"""The version, which several files have: `python -m scripts.version [VERSION]`.

Without a version it prints the one there is; with one, it writes it wherever it belongs.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Semantic Versioning 2.0.0, without build metadata, which registries do not take.
SEMANTIC = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")
SOURCE = "kernelzoo/__init__.py"
PLACES = {
    SOURCE: r'(?m)^__version__ = "(.+)"$',
    "client/package.json": r'(?m)^  "version": "(.+)"',
    "client/package-lock.json": r'"name": "kernelzoo",\n *"version": "(.+)"',
    "helm/kernelzoo/Chart.yaml": r"(?m)^(?:version|appVersion): (.+)$",
    "compose.yaml": r"\$\{KERNELZOO_VERSION:-(.+?)\}",
    "docs/api/openapi.json": r'(?m)^    "version": "(.+)"$',
}
"""By file, an expression whose first group is the version, wherever it matches."""


def written() -> Iterator[tuple[str, str]]:
    """Every version that there is, with its file."""
    for name, pattern in PLACES.items():
        found = re.findall(pattern, (ROOT / name).read_text())
        yield from ((name, version) for version in found or ["none"])


def write(version: str) -> None:
    for name, pattern in PLACES.items():
        path = ROOT / name
        path.write_text(re.sub(pattern, lambda match: _with(match, version), path.read_text()))


def _with(match: re.Match[str], version: str) -> str:
    start, end = (at - match.start() for at in match.span(1))
    return match[0][:start] + version + match[0][end:]


def main(arguments: list[str]) -> None:
    if not arguments:
        print(dict(written())[SOURCE])
        return
    (version,) = arguments
    if SEMANTIC.fullmatch(version) is None:
        sys.exit(f"{version} is no semantic version; write one as in 0.2.0 or 1.0.0-rc.1")
    write(version)
    print(
        f"wrote {version}; name it in CHANGELOG.md, and run `make generate` and the chart's tests"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
