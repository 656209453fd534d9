"""The chart's README from its values: `python -m helm.readme` writes it.

A comment that starts with `# --` right above a key documents its value, whole, or a mapping
without further documented keys.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

CHART = Path(__file__).parent / "kernelzoo"
MARK = "# -- "


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartValue:
    """`path` has dots; `default` is JSON."""

    path: str
    default: str
    text: str


class Undocumented(Exception):
    pass


def documented_values(text: str) -> tuple[ChartValue, ...]:
    """Every value of values.yaml with its text. Raises Undocumented when one has none."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    return tuple(_walk(root, text.splitlines(), ()))


def _walk(node: yaml.MappingNode, lines: list[str], above: tuple[str, ...]) -> Iterator[ChartValue]:
    for key, value in node.value:
        path = (*above, key.value)
        words = _comment(lines, key.start_mark.line)
        if words is not None:
            yield ChartValue(path=".".join(path), default=_default(value), text=words)
        elif isinstance(value, yaml.MappingNode) and value.value:
            yield from _walk(value, lines, path)
        else:
            raise Undocumented(f"values.yaml: {'.'.join(path)} needs a `# --` comment above it")


def _comment(lines: list[str], line: int) -> str | None:
    """The comment that ends right above `line`, if it documents."""
    words: list[str] = []
    while line > 0 and lines[line - 1].lstrip().startswith("# "):
        line -= 1
        words.insert(0, lines[line].strip())
        if words[0].startswith(MARK):
            return " ".join(word.removeprefix(MARK).removeprefix("# ") for word in words)
    return None


def _default(node: yaml.Node) -> str:
    value = yaml.safe_load(yaml.serialize(node, Dumper=yaml.SafeDumper))
    return json.dumps(value, ensure_ascii=False)


def readme(text: str) -> str:
    rows = "".join(
        f"| `{value.path}` | `{value.default}` | {value.text.replace('|', chr(92) + '|')} |\n"
        for value in documented_values(text)
    )
    return f"{HEAD}\n| value | default | what it is |\n|---|---|---|\n{rows}"


HEAD = """\
# The kernelzoo chart

A gateway, compile and aggregate workers, their clock, migrations as a hook, and a fleet of browser
agents where wanted. PostgreSQL and Redis are yours: the chart takes their addresses from secrets.

```sh
kubectl create secret generic kernelzoo-database --from-literal=url=postgresql://…
kubectl create secret generic kernelzoo-redis --from-literal=url=rediss://…
kubectl create secret generic kernelzoo-keys \\
  --from-literal=operator-key="$(openssl rand -hex 32)" \\
  --from-literal=token-secret="$(openssl rand -hex 32)" \\
  --from-literal=signing-key="$(openssl rand -base64 32 | tr '+/' '-_' | tr -d '=')"
helm install kernelzoo helm/kernelzoo --values helm/kernelzoo/examples/production.yaml
```

`examples/` has three sets of values to begin with: `small.yaml`, `production.yaml` and
`air-gapped.yaml`. Values that contradict one another are refused with a sentence that says what to
do. docs/operations.md of the repository tells of upgrades, backups, scaling and keys.

This page is made from values.yaml by `python -m helm.readme`.
"""


def main() -> int:
    (CHART / "README.md").write_text(readme((CHART / "values.yaml").read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
