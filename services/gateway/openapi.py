"""Prints the OpenAPI document: `python -m services.gateway.openapi`."""

import json
import sys

from pydantic import SecretStr

from kernelzoo.settings import Settings
from services.gateway.app import application


def document() -> str:
    """Writes the document, which is equal on every machine: nothing in it depends on the
    settings."""
    settings = Settings(
        database_url="", redis_url="", operator_key=SecretStr(""), token_secret=SecretStr("")
    )
    return json.dumps(application(settings).openapi(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
