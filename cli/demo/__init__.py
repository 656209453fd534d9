"""`kernelzoo demo`: the main job from an empty zoo to a hit at page load."""
