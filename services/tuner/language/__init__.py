"""Language models of the Llama shape: read or seeded, quantised, and planned as a decoder.

config.py      what config.json says          checkpoint.py   weights by their names
quantise.py    blocks of 4 bits               rotation.py     tables of the rotary embedding
decoder.py     the graph of one token         reference.py    the same in NumPy
planning.py    all of it as a plan with its golden outputs
"""
