"""Dials a host: checks its addresses, and connects to the first one that accepts, within the deadline."""

import socket
from functools import partial

from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError

from fleethook.engines.crds.download.cancellation import Deadline, shut_down
from fleethook.engines.crds.download.resolver import LOOKUPS, Info
from fleethook.engines.crds.download.retry import CONNECT_SECONDS
from fleethook.outbound.addresses import PrivateAddressError, is_private, refuse_private_number


def dial_host(host: str, port: int, deadline: Deadline, *, allow_private: bool) -> socket.socket:
    """Return a connection to the first address of a host that accepts one.

    Raises:
        PrivateAddressError: An address is private, and private addresses are not allowed.
        ConnectTimeoutError: The last address did not answer in time.
        OSError: The host has no address, or the last one refuses.
    """
    last: OSError = ConnectionAbortedError()
    for info in resolve_addresses(host, port, deadline, allow_private=allow_private):
        if deadline.cancelled:
            break
        try:
            return _connect(info, deadline)
        except OSError as error:
            last = error
    if isinstance(last, TimeoutError):
        raise ConnectTimeoutError from last
    raise last


def resolve_addresses(host: str, port: int, deadline: Deadline, *, allow_private: bool) -> list[Info]:
    """Return the addresses of a host in the order of attempts.

    The caller dials the addresses that are checked here, so DNS rebinding has no effect.

    Raises:
        PrivateAddressError: An address is private, and private addresses are not allowed.
        OSError: The host has no address.
    """
    found = LOOKUPS.find(host.strip("[]"), port, deadline)
    private = [str(info[4][0]) for info in found if is_private(str(info[4][0]))]
    if private and not allow_private:
        raise PrivateAddressError(private[0])
    return found


def _connect(info: Info, deadline: Deadline) -> socket.socket:
    family, kind, protocol, _, address = info
    made = socket.socket(family, kind, protocol)
    try:
        for option in HTTPConnection.default_socket_options:
            made.setsockopt(*option)
        made.settimeout(CONNECT_SECONDS)
        # `watch` starts after the connect: its duplicate would keep a failed socket open.
        with deadline.on_cancel(partial(shut_down, made)):
            made.connect(address)
        deadline.watch(made)
    except BaseException:
        made.close()
        raise
    return made


def refuse_private_literal(host: str) -> None:
    """Refuse a host that is private by its text alone. For requests through a proxy, which resolves the name.

    Raises:
        PrivateAddressError: The host is private.
    """
    refuse_private_number(host)
    if host == "localhost" or host.endswith(".localhost") or (":" in host and is_private(host)):
        raise PrivateAddressError(host)
