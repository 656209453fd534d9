"""Stages that take their values one after another: scans, selections, updates at places."""
