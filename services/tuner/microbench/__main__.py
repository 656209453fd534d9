"""Writes the client's probe modules to standard output."""

import sys

from services.tuner.microbench.typescript import typescript

sys.stdout.write(typescript())
