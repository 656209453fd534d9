"""Describes what enters and leaves the gateway as JSON: one module per resource, version 1."""
