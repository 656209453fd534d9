"""Models as graphs of the project: read, simplified, fused, lowered and planned."""
