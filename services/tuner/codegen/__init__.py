"""Printers of the loop IR."""
