"""Tensor programs of operators as programs of TVM."""
