"""Writes the client's probe modules of a target, wasm unless it is named, to standard output."""

import sys

from kernelzoo.domain.target import TargetKind
from services.tuner.microbench.typescript import typescript

sys.stdout.write(typescript(TargetKind(sys.argv[1] if len(sys.argv) > 1 else TargetKind.WASM)))
