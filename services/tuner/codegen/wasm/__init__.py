"""Code generation for WebAssembly: from an unrolled program to the bytes of a module.

`module` is the entry. `statements` and `expressions` select instructions, `memory` lays out scratch
memory and computes addresses, `function` holds the function under construction, `instructions` is
the instruction set with its encoding.
"""
