"""The application whose OpenAPI document says what is sent."""

from typing import Any

from fastapi import FastAPI

from kernelzoo.formats.plans import plan_schemas
from services.gateway.problems import MEDIA_TYPE


class DocumentedApp(FastAPI):
    """Serves and writes one document, which is made once."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = _documented(super().openapi())
        return self.openapi_schema


def _documented(document: dict[str, Any]) -> dict[str, Any]:
    """Describes errors and plans as they are sent: FastAPI takes all answers for JSON of its own
    models, and what it says of invalid requests for its own.
    """
    for path in document["paths"].values():
        for operation in path.values():
            responses = operation["responses"]
            responses.pop("422", None)
            for status, response in responses.items():
                if status.startswith("4") and (content := response.get("content")):
                    response["content"] = {MEDIA_TYPE: content["application/json"]}
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    # A plan is put into its answer as the bytes that were stored; no wire model repeats its fields.
    schemas |= plan_schemas()
    schemas["ModelManifest"]["properties"]["plan"] = {"$ref": "#/components/schemas/Plan"}
    return document
