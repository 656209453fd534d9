"""What a page measures of a device: primitives, and how stable its probe is."""
