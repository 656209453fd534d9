"""`kernelzoo models …`: networks that pages run whole."""
