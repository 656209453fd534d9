"""Deployment from a clone: base images, the four images, and the stack of compose.yaml (see
`__main__`)."""
