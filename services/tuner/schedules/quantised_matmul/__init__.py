"""Products of many rows and quantised weights: tiles through workgroup memory."""
