"""TCP ports of this machine: which are free, and how others reach them."""

import socket
from contextlib import closing, suppress
from random import SystemRandom

from kernelzoo.errors import StackError

LOOPBACK = "127.0.0.1"
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared with, and chosen by the user with --host


PORTS = range(20_000, 32_000)
"""Below those that the system gives to outgoing connections (Linux: from 32,768): any of these
could take a port between its choice and the start of who is to listen on it."""

TRIES = 50
_CHANCE = SystemRandom()


def free_port(host: str = LOOPBACK) -> int:
    """Raises StackError where nothing can be listened on, as of a foreign `host`."""
    first, *others = _CHANCE.sample(PORTS, TRIES)
    for port in others:
        with suppress(StackError):
            return _bound(host, port)
    return _bound(host, first)


def preferred_port(port: int, host: str = LOOPBACK) -> int:
    """`port` where nobody listens on it, else a free one."""
    try:
        return listening_port(host, port)
    except StackError:
        return free_port(host)


def listening_port(host: str, port: int) -> int:
    """`port`, or a free one for 0. Raises StackError when it cannot be listened on."""
    return _bound(host, port) if port else free_port(host)


def _bound(host: str, port: int) -> int:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            raise StackError(_refusal(host, port, error)) from error
        return port


def _refusal(host: str, port: int, error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) else "ports go up to 65535"
    return (
        f"cannot listen on {host} port {port}: {reason}; "
        "choose another with --port N (0 takes any free one) or another address with --host"
    )


def lan_address() -> str | None:
    """This machine's address on its network, if it has a route. Nothing is sent."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address: str = probe.getsockname()[0]
        return address


def local_url(host: str, port: int) -> str:
    """Makes the address by which this machine reaches a server that listens on `host`."""
    return f"http://{LOOPBACK if host == ANY_ADDRESS else host}:{port}"
