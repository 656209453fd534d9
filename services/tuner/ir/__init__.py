"""The loop IR: what is left of a tensor program once TVM has scheduled it."""
