"""The place of the largest of many entries."""
