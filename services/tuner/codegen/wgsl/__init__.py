"""From loop programs to the text of a WGSL module (see `kernelzoo.domain.artifact`, ABI 1)."""
