"""An identity shows one of these before it may speak for classes other than its own.

An identity costs a page load. What is asked here costs a second of a processor, or what a platform
knows of its visitor. All of it is off unless `KERNELZOO_ATTESTATION` names it.
"""
