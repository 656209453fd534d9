"""Schedules convolutions of bytes that keep channels apart."""
