"""Programs of TVM: stated, lowered, and visited once into the loop IR."""
