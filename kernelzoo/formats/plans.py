"""Plans as bytes: canonical JSON, so that equal plans have equal hashes."""

from hashlib import sha256
from typing import Any

import msgspec

from kernelzoo.domain.plan import MEMORY_DTYPES, Plan
from kernelzoo.domain.plan_checking import validated
from kernelzoo.errors import InvalidInput

MAX_PLAN_BYTES = 16 << 20

_FORMER_HEADS = {
    b'{"format":1,': b'{"needs":[],',
    b'{"format":2,': b'{"needs":["states"],',
    b'{"format":3,': b'{"needs":["stored"],',
    b'{"format":4,': b'{"needs":["f16"],',
    b'{"format":5,': b'{"needs":["states","f16"],',
}
"""Plans began with the number of a format before they named their needs."""


def plan_bytes(plan: Plan) -> bytes:
    """The canonical form: fields in the order of their classes, dimensions by name, no spaces."""
    return msgspec.json.encode(plan_document(plan))


def plan_sha256(plan: Plan) -> str:
    return sha256(plan_bytes(plan)).hexdigest()


def plan_document(plan: Plan) -> dict[str, Any]:
    """Returns the document as JSON has it. Parts that a plan lacks, such as states, are not named
    there."""
    document: dict[str, Any] = msgspec.to_builtins(plan)
    document["dimensions"] = dict(sorted(document["dimensions"].items()))
    for port in document["inputs"] + document["outputs"]:
        _omit(port, "rows", "open")
        _omit_empty(port, "also_open")
    for part in document["golden"]["inputs"] + document["golden"]["outputs"]:
        _omit(part, "off")
    for tensor in document["tensors"]:
        _omit(tensor, "at", "weight", "state")
    for weight in document["weights"]:
        _omit(weight, "storage")
        _omit(weight.get("storage", {}), "axis")
    for chunk in document["chunks"]:
        _omit(chunk, "inflated")
    _omit(document["golden"], "storage_error")
    if document["decoder"] is not None:
        _omit(document["decoder"], "encoder")
    _omit(document, "decoder", "batch")
    for axis in document["axes"]:
        _omit_empty(axis, "buckets")
    _omit_empty(document, "states", "axes", "sums")
    return document


def _omit(part: dict[str, Any], *names: str) -> None:
    """Deletes those of the names that are None."""
    for name in names:
        if name in part and part[name] is None:
            del part[name]


def _omit_empty(part: dict[str, Any], *names: str) -> None:
    for name in names:
        if not part[name]:
            del part[name]


def with_needs(body: bytes) -> bytes:
    """Returns the bytes of a plan, those of formats 1 to 5 as they are written now. The file of
    such a plan, and so its hash, stays as it was sent."""
    for former, head in _FORMER_HEADS.items():
        if body.startswith(former):
            return head + body.removeprefix(former)
    return body


def plan_schemas() -> dict[str, Any]:
    """JSON Schemas of `Plan` and its parts by name, which refer to one another as those of an
    OpenAPI document do. Fields that a plan may lack are never null."""
    _, schemas = msgspec.json.schema_components([Plan], ref_template="#/components/schemas/{name}")
    for schema in schemas.values():
        for name, field in schema.get("properties", {}).items():
            if field.pop("default", ...) is None:
                [schema["properties"][name]] = [
                    each for each in field["anyOf"] if each != {"type": "null"}
                ]
    schemas["DType"]["enum"] = list(MEMORY_DTYPES)
    return schemas


def read_plan(body: bytes) -> Plan:
    """Raises InvalidInput for what is no plan, and for one that is not in its canonical form."""
    body = with_needs(body)
    if len(body) > MAX_PLAN_BYTES:
        raise InvalidInput(f"the plan has {len(body)} bytes; at most {MAX_PLAN_BYTES} are allowed")
    try:
        plan = msgspec.json.decode(body, type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"this is no plan: {str(error)[:200]}") from error
    validated(plan)
    if plan_bytes(plan) != body:
        raise InvalidInput("the plan is not canonical: a field is unknown or out of order")
    return plan
