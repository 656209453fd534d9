"""What may be told of a class of devices. docs/adr/0035 says why."""


def is_told(*, identities: int, strangers: int, quorum: int) -> bool:
    """Whether what a class measured may be shown to anyone, or only how much it was.

    A class of few devices is nearly a person. The operator's own devices are nobody's secret: a
    class without `strangers` is shown from the first.
    """
    return strangers == 0 or identities >= quorum
