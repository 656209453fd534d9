"""The one exception tree. Every message says what was wrong and what to do about it."""


class KernelZooError(Exception):
    """Root of every error that kernelzoo raises on purpose."""


class InvalidInput(KernelZooError):
    """A value from outside does not mean anything: a shape, a target, a device, a token."""


class UnsupportedProgram(KernelZooError):
    """The compiler met a tensor program node that it does not lower."""


class UnsupportedModel(KernelZooError):
    """A model is sound, but something in it cannot be imported: an operator, a type, an open shape.

    The message names node and operator and says what would help.
    """


class InvalidSchedule(KernelZooError):
    """A config cannot be applied to its workload. The search catches it and records a failure."""


class StackError(KernelZooError):
    """A process of the local stack did not do what it was started for."""
