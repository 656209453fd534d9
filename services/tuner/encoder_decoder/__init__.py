"""Models of an encoder and a decoder that attends to what it made: T5, BART, Marian, Whisper.

config.py       what config.json says         naming.py     names of their weights
config_file.py  reads it                      tensors.py    weights by those names
encoder.py      the calls of the encoder      decoder.py    those of a token
layers.py       what both are made of         planning.py   all of it as a plan
"""
