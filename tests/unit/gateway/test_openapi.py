"""The checked-in OpenAPI document, from which the client's wire types come, is the gateway's."""

import json
from pathlib import Path

from services.gateway.openapi import document

CHECKED_IN = Path(__file__).parents[3] / "docs" / "api" / "openapi.json"


def test_the_checked_in_document_is_current() -> None:
    assert CHECKED_IN.read_text() == document(), "run `make generate`"


def test_every_route_says_what_it_is_and_belongs_to_a_group() -> None:
    paths = json.loads(document())["paths"]
    for path, operations in paths.items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            assert operation["tags"], where
            assert operation["summary"], where
            assert operation["description"].rstrip().endswith("."), where
