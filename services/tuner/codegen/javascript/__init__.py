"""Code generation for JavaScript: from an unrolled program of single numbers to an ES module.

`module` is the entry. `statements` and `expressions` write the code.
"""
