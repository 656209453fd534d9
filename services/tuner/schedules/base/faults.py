"""Says what makes a setting unusable, to whoever chose it; '' where nothing does."""

from collections.abc import Collection


def range_fault(name: str, value: int, least: int, most: int) -> str:
    return "" if least <= value <= most else f"{name}={value} must be from {least} to {most}"


def choice_fault(name: str, value: object, choices: Collection[object]) -> str:
    if value in choices:
        return ""
    return f"{name}={value} must be one of {', '.join(map(str, choices))}"


def power_fault(name: str, value: int, least: int, most: int) -> str:
    """The fault of a setting that has to be a power of two."""
    if least <= value <= most and value.bit_count() == 1:
        return ""
    return f"{name}={value} must be a power of two from {least} to {most}"
