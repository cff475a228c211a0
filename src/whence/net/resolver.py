"""The addresses that a contact's host name has at present, and which of them are on this machine alone."""

import asyncio
import socket
from ipaddress import ip_address

from whence.errors import JoinError


async def resolve(host: str, port: int) -> list[str]:
    """Return every address of a host, IPv4 and IPv6, each once; an address is its own. Raises JoinError that says why
    there is none."""
    if is_address(host):
        return [host]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise JoinError(f"{host} cannot be resolved: {reason}") from error
    if not found:
        raise JoinError(f"{host} has no address yet")
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def is_address(host: str) -> bool:
    """Tell whether a host is an address and no name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Tell whether a host can only be this machine, by its form: no resolver is asked."""
    return ip_address(host).is_loopback if is_address(host) else host.rstrip(".").lower() == "localhost"
