"""Runs the WebGPU benchmark: cases, jobs, browsers, and the report of what they answered."""
