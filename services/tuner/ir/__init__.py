"""The loop IR: a tensor program as a nest of loops over flat buffers, once TVM has scheduled it.

`nodes` is the IR on one page, `affine` its indices. `build` and `rewrite` make and rebuild
programs, `text` prints them, `interpreter` runs them, and `legality` says what a program must keep
at each stage.
"""
