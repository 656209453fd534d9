"""Attention of many rows in each head: products, softmax and products again, a block at a time."""
