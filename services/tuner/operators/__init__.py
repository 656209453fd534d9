"""The operators as tensor expressions."""
