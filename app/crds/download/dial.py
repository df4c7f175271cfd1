"""Making a connection: to the first address of a host that takes one, private or not, watched from its first moment."""

import socket
from functools import partial

from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError

from app.crds.download.cancellation import Deadline, shut_down
from app.crds.download.resolver import LOOKUPS, Info
from app.crds.download.retry import CONNECT_SECONDS
from app.outbound.addresses import PrivateAddressError, is_private, refuse_private_number


def dial_host(host: str, port: int, deadline: Deadline, *, allow_private: bool) -> socket.socket:
    """Return a connection to the first of a host's addresses that takes one.

    Raises:
        PrivateAddressError: One of them is private, and may not be dialled.
        ConnectTimeoutError: The last one did not answer in time.
        OSError: The host has none, or the last one does not take it.
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
    """Return a host's addresses in the order in which they are to be tried.

    The addresses that are judged are the ones that are dialled: a name that resolves to another address a moment later
    gains nothing.

    Raises:
        PrivateAddressError: One of them is private, and may not be dialled.
        OSError: There is none.
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
        # Not watched for longer than that: a duplicate would keep a connection alive that is given up here.
        with deadline.on_cancel(partial(shut_down, made)):
            made.connect(address)
        deadline.watch(made)
    except BaseException:
        made.close()
        raise
    return made


def refuse_private_literal(host: str) -> None:
    """Refuse a host that is private by its text alone, for requests by way of a proxy, which resolves the name.

    Raises:
        PrivateAddressError: It is.
    """
    refuse_private_number(host)
    if host == "localhost" or host.endswith(".localhost") or (":" in host and is_private(host)):
        raise PrivateAddressError(host)
