"""How many examples Hypothesis draws."""

from hypothesis import settings


def examples(thorough: int) -> int:
    """So many in `make test-all`, and as large a share of every other profile."""
    return settings().max_examples * thorough // settings.get_profile("thorough").max_examples
