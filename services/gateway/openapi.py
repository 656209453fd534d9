"""Prints the OpenAPI document: `python -m services.gateway.openapi`."""

import json
import sys

from pydantic import SecretStr

from kernelzoo.formats.plans import plan_schemas
from kernelzoo.settings import Settings
from services.gateway.app import application
from services.gateway.problems import documented


def document() -> str:
    """Writes the document, which is equal on every machine: nothing in it depends on the
    settings."""
    settings = Settings(
        database_url="", redis_url="", operator_key=SecretStr(""), token_secret=SecretStr("")
    )
    written = documented(application(settings).openapi())
    schemas = written["components"]["schemas"]
    # A plan is put into its answer as the bytes that were stored; no wire model repeats its fields.
    schemas |= plan_schemas()
    schemas["ModelManifest"]["properties"]["plan"] = {"$ref": "#/components/schemas/Plan"}
    return json.dumps(written, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
