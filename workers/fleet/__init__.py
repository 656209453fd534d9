"""Device agents in headless browsers: `python -m workers.fleet`."""
