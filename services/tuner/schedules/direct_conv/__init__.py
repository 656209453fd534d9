"""Convolutions of images of a few channels, read where they lie."""
