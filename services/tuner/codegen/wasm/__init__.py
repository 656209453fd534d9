"""From the loop IR to the bytes of a WebAssembly module."""
