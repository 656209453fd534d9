"""The checked-in OpenAPI document, from which the client's wire types come, is the gateway's."""

from pathlib import Path

from services.gateway.openapi import document

CHECKED_IN = Path(__file__).parents[3] / "docs" / "api" / "openapi.json"


def test_the_checked_in_document_is_current() -> None:
    assert CHECKED_IN.read_text() == document(), "run `make generate`"
