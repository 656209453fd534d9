"""Code generation for WebGPU: from optimised programs to the text of a WGSL module.

`module` is the entry. `statements` and `expressions` write the code, `memory` the accesses of
buffers, `f16_storage` those of f16, `accesses` decides which buffers are arrays of vec4.
"""
