"""A member of a group, as applications see it: a number that also tells the name, the address and how it does."""

from whence.core.links.greeting import host_port
from whence.core.links.process_names import NamedPid
from whence.core.member import Living
from whence.net.driver import Driver
from whence.net.peers import PeerTable


class Member(NamedPid):
    """A member. It is its number (pid) in every comparison, and knows more; it tells what was known when it was made.

    `str` is its name with the number, such as `billing-1 (17)`; the number alone where it has no name, or where that is
    not known here (`name` is empty then).
    """

    address: str
    """Host:port where it is reached; empty where that is not known."""
    connected: bool
    """This process is connected to it, or is it."""
    suspected: bool
    """It owes an answer for too long, or its connection is gone."""
    lag: int | None
    """Messages that were received here and that its application is not known to have taken; None in groups whose
    members do not change by views."""

    @property
    def pid(self) -> int:
        """Return its number, which it is."""
        return int(self)


def member_of(driver: Driver, peers: PeerTable, pid: int) -> Member:
    """Return what is known now of a process, as a member of a group."""
    member = Member(pid)
    address, is_me = peers.book.find(pid), pid == driver.context.me.pid
    member.name = peers.names.name(pid)
    member.address = host_port(address.host, address.port) if address is not None else ""
    member.connected = is_me or peers.is_connected(pid)
    member.suspected, member.lag = not member.connected, None
    view = driver.member.view_status() if isinstance(driver.member, Living) and not driver.left else None
    for each in view.members if view is not None else ():
        if each.pid == pid:
            member.suspected, member.lag = each.suspected, each.lag
    return member
