"""The names and types of a model's inputs and outputs, for TypeScript; pure."""

import json
import re
from collections.abc import Sequence

from kernelzoo.domain.plan import PortDType
from services.gateway.wire.models import ModelDocument, PlanWire, PortWire

ARRAYS = {
    PortDType.INT64: "BigInt64Array",
    PortDType.INT32: "Int32Array",
    PortDType.UINT32: "Uint32Array",
    PortDType.UINT8: "Uint8Array",
    PortDType.BOOL: "Uint8Array",
    PortDType.FLOAT32: "Float32Array",
}
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


def declarations(model: ModelDocument) -> str:
    """An interface for `zoo.model<Name>("name")`. All plans of a model have the same inputs and
    outputs, but for their extents.
    """
    first = model.plans[0]
    return "\n".join(
        (
            f"/** The model {model.name}, by `kernelzoo models types {model.name}`. */",
            f"export interface {interface_name(model.name)} {{",
            *_members("inputs", first.inputs, model.plans),
            *_members("outputs", first.outputs, model.plans),
            "}",
            "",
        )
    )


def interface_name(model: str) -> str:
    """`t5-small` is `T5Small`."""
    words = (word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", model))
    name = "".join(words)
    return name if _IDENTIFIER.fullmatch(name) else f"Model{name}"


def _members(what: str, ports: Sequence[PortWire], plans: Sequence[PlanWire]) -> list[str]:
    lines = [f"  readonly {what}: {{"]
    for number, port in enumerate(ports):
        shapes = [
            _shape((plan.inputs if what == "inputs" else plan.outputs)[number]) for plan in plans
        ]
        lines.append(f"    /** {port.dtype} {' or '.join(dict.fromkeys(shapes))} */")
        lines.append(f"    readonly {_member(port.name)}: {ARRAYS[PortDType(port.dtype)]};")
    return [*lines, "  };"]


def _shape(port: PortWire) -> str:
    return f"[{', '.join(map(str, port.shape))}]"


def _member(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else json.dumps(name)
