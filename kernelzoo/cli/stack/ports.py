"""TCP ports of this machine: which are free, and how others reach them."""

import socket
from contextlib import closing

from kernelzoo.errors import StackError

LOOPBACK = "127.0.0.1"
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared with, and chosen by the user with --host


def free_port(host: str = LOOPBACK) -> int:
    with closing(socket.socket()) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def preferred_port(port: int, host: str = LOOPBACK) -> int:
    """`port` where nobody listens on it, else a free one."""
    try:
        return listening_port(host, port)
    except StackError:
        return free_port(host)


def listening_port(host: str, port: int) -> int:
    """`port`, or a free one for 0. Raises StackError when it cannot be listened on."""
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            raise StackError(_refusal(host, port, error)) from error
        bound: int = probe.getsockname()[1]
        return bound


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
    """How this machine reaches a server that listens on `host`."""
    return f"http://{LOOPBACK if host == ANY_ADDRESS else host}:{port}"
