"""Transpositions for WebGPU. For wasm they are elementwise, by a pass that takes them in blocks."""
