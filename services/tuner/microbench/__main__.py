"""Writes the client's probe modules of a target, wasm unless it is named, to standard output."""

import sys

from services.tuner.microbench import typescript as wasm
from services.tuner.microbench.gpu import typescript as webgpu

_WRITERS = {"wasm": wasm.typescript, "webgpu": webgpu.typescript}

sys.stdout.write(_WRITERS[sys.argv[1] if len(sys.argv) > 1 else "wasm"]())
