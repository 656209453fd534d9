"""Predicts which candidates are fastest on a device, from what devices have measured.

`dataset` groups measurements and holds some out, `features` makes them numbers, `model` trains
boosted trees and ranks candidates, `evaluation` scores a ranking on held-out devices and shapes,
`training` decides whether a model is published. It is pure: no clock, no randomness, no I/O.
"""
