"""`python -m kernelzoo.cli`."""

from kernelzoo.cli.app import main

main()
