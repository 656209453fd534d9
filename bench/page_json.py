"""Reads what pages of benchmarks answer, as JSON."""

import msgspec


class PageJson(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Its fields are named there as TypeScript names them."""
