"""Kernels for WebAssembly that do something before they compute."""

from kernelzoo.domain.candidate import Candidate
from services.tuner.compile import compile_candidate

TRAP = bytes([0x00])
HANG = bytes([0x03, 0x40, 0x0C, 0x00, 0x0B])
STOP = bytes([0x0F])


def counting(steps: int, local: int = 5) -> bytes:
    """Counts from so many down to zero in a local of i32, which is zero at first."""
    to, of = bytes([0x21, local]), bytes([0x20, local])
    tee = bytes([0x22, local])
    loop = b"\x03\x40" + of + b"\x41\x01\x6b" + tee + b"\x0d\x00\x0b"
    return b"\x41" + _signed(steps) + to + loop


def filling(operand: int, size: int) -> bytes:
    """Sets so many bytes of an operand to 0x41: each four are 12.08 as a number."""
    fill = b"\xfc\x0b\0"
    return bytes([0x20, operand]) + b"\x41" + _signed(0x41) + b"\x41" + _signed(size) + fill


def if_word(word: int, code: bytes) -> bytes:
    """`code` where the first word of the first input is this."""
    return b"\x20\0\x28\2\0\x41" + _signed(word) + b"\x46\x04\x40" + code + b"\x0b"


def at_first(candidate: Candidate, code: bytes) -> bytes:
    """The candidate with `code` before its own: its only function is the last section."""
    body = compile_candidate(candidate).body
    at = 8
    while body[at] != 10:
        size, start = _number(body, at + 1)
        at = start + size
    _, start = _number(body, _number(body, at + 1)[1] + 1)
    groups, start_of_code = _number(body, start)
    for _ in range(groups):
        start_of_code = _number(body, start_of_code)[1] + 1
    function = body[start:start_of_code] + code + body[start_of_code:]
    section = b"\1" + _written(len(function)) + function
    return body[:at] + b"\x0a" + _written(len(section)) + section


def _signed(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _signed(rest) if rest or low > 63 else bytes([low])


def _number(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (body[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if body[at - 1] < 0x80:
            return value, at


def _written(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _written(rest) if rest else bytes([low])
