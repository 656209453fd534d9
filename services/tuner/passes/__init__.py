"""The passes of the loop IR; each is one pure function from a program to a program.

`pipeline` runs them in order. Every file begins with what its pass does and the IR before and after
it, in the notation of `ir/text.py`; `tests/golden/tuner/pass-*.txt` hold these examples.
"""
