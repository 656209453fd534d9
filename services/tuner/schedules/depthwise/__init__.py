"""Convolutions that keep channels apart, directly from the image."""
