"""Language models of the Llama shape: read or seeded, quantised, and planned as a decoder.

config.py      what config.json says          checkpoint.py   weights by their names
quantise.py    blocks of 4 bits               rotation.py     tables of the rotary embedding
decoder.py     the graph of one token         block.py        and that of a block of a prompt
operands.py    what the calls of both read    building.py     a graph made call by call
reference.py   the same in NumPy              planning.py     all of it as a plan

packed.py      matrices of a file of ONNX     onnx_parts.py   what its layers consist of
onnx_decoder.py    config and weights of such a file
"""
