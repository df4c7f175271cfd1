"""Dials a host directly or through a SOCKS5 proxy (RFC 1928, RFC 1929), within the deadline.

It resolves and checks the host's addresses, and connects to the first that accepts. ``getaddrinfo`` cannot be
cancelled. It runs on a daemon thread that is abandoned after the time limit. The number of these threads is limited;
another lookup waits until one ends.

python-socks implements the protocol of proxies. This module makes the connection to the proxy, so that name lookup,
connect and handshake have the same limits as other connections.
"""

import ipaddress
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from socket import getaddrinfo
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote

import python_socks
from python_socks.sync import Proxy
from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, LocationParseError, ProxyError
from urllib3.util.connection import allowed_gai_family

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download.retries import CONNECT_SECONDS, AttemptError, Deadline, SlowLookupError, shut_down
from fleethook.outbound.addresses import PrivateAddressError, is_private, refuse_private_number
from fleethook.work.turns import call_in_daemon_thread

Info = tuple[int, int, int, str, tuple[Any, ...]]
"""A result of ``socket.getaddrinfo``."""

MAX_LOOKUPS: Final = 16


class Lookups:
    """Runs at most ``limit`` lookups at a time, abandoned ones included."""

    def __init__(self, limit: int = MAX_LOOKUPS) -> None:
        self._limit = limit
        self._running = 0
        self._changed = threading.Condition()

    def find(self, name: str, port: int, deadline: Deadline) -> list[Info]:
        """Return the addresses of a name in the order to dial them.

        Raises:
            SlowLookupError: There was no answer in time, or the deadline passed.
            socket.gaierror: The name does not exist, or no DNS server can be reached.
            LocationParseError: The name is invalid.
        """
        if _is_number(name):
            return _look_up(name, port)
        until = time.monotonic() + CONNECT_SECONDS
        with deadline.on_cancel(self._wake), self._changed:
            if self._wait(lambda: self._running < self._limit, deadline, until):
                answer = call_in_daemon_thread(partial(_look_up, name, port), name="lookup")
                self._running += 1
                answer.add_done_callback(self._end)
                if self._wait(answer.done, deadline, until):
                    return answer.result()
        raise SlowLookupError(name)

    def _wait(self, is_ready: Callable[[], bool], deadline: Deadline, until: float) -> bool:
        self._changed.wait_for(lambda: deadline.cancelled or is_ready(), until - time.monotonic())
        return is_ready() and not deadline.cancelled

    def _end(self, _: "Future[list[Info]]") -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


LOOKUPS: Final = Lookups()
"""The lookups of this process."""


def _look_up(name: str, port: int) -> list[Info]:
    try:
        return [*getaddrinfo(name, port, allowed_gai_family(), socket.SOCK_STREAM)]
    except UnicodeError:
        raise LocationParseError(name) from None


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


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


SCHEMES: Final = ("socks5", "socks5h")
_PORT: Final = 1080
# The length of a name has one byte (RFC 1928, 5).
_MAX_NAME: Final = 255
# The length of a credential has one byte (RFC 1929); python-socks sends ASCII only.
_MAX_CREDENTIAL: Final = 255
# Replies of RFC 1928, 6, and whether a retry may succeed.
_REPLIES: Final = {
    1: ("general failure", True),
    2: ("its rules do not allow this address", False),
    3: ("network is unreachable", True),
    4: ("host is unreachable", True),
    5: ("connection refused", True),
    6: ("TTL expired", True),
    7: ("command not supported", False),
    8: ("address type not supported", False),
}


class SocksProxy(NamedTuple):
    """The address of a proxy, and the credentials for it."""

    host: str
    port: int
    username: str
    password: str
    resolves: bool
    """Whether the proxy resolves names (socks5h, as in curl); if not, it gets an address."""


class _RefusedError(AttemptError):
    """A working proxy refuses to connect to an address."""


class _ExistingConnection(Proxy):
    """Passes an existing connection to python-socks, which takes a proxy to connect through."""

    def __init__(self, connection: socket.socket) -> None:
        self._made = connection

    def connect(self, dest_host: str, dest_port: int, timeout: float | None = None, **kwargs: Any) -> socket.socket:
        del dest_host, dest_port, timeout, kwargs
        return self._made


def parse_socks_proxy(parts: SplitResult) -> SocksProxy:
    """Return the proxy of a URL whose scheme is one of `SCHEMES`.

    Raises:
        CRDsError: It has no host, an invalid port, or credentials that cannot be sent; the message does not have them.
    """
    try:
        port = parts.port or _PORT
    except ValueError:
        port = 0
    if not parts.hostname or not port:
        raise CRDsError(Exit.USAGE, "invalid proxy URL: a SOCKS proxy must have a host and a valid port")
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    pair = (username, password)
    if any(pair) and not all(word.isascii() and 0 < len(word) <= _MAX_CREDENTIAL for word in pair):
        text = f"user and password of a SOCKS proxy must have 1 to {_MAX_CREDENTIAL} ASCII characters each"
        raise CRDsError(Exit.USAGE, f"invalid proxy URL: {text}")
    return SocksProxy(parts.hostname, port, username, password, parts.scheme == "socks5h")


def dial_through_socks(
    proxy: SocksProxy, host: str, port: int, deadline: Deadline, *, allow_private: bool, allow_private_proxy: bool
) -> socket.socket:
    """Return a connection to a host through a proxy; tries each address of the host if its name is resolved here.

    Raises:
        PrivateAddressError: An address of the host or of the proxy is private, and not allowed.
        AttemptError: The proxy refuses.
        ProxyError: The proxy cannot be reached, or does not answer.
        LocationParseError: The host is not a valid name.
        OSError: The host has no address.
    """
    if len(host) > _MAX_NAME:
        raise LocationParseError(host)
    targets = [host.strip("[]")]
    if not proxy.resolves:
        found = resolve_addresses(host, port, deadline, allow_private=allow_private)
        targets = list(dict.fromkeys(str(info[4][0]) for info in found))
    for target in targets[:-1]:
        try:
            return _connect_through(proxy, target, port, deadline, allow_private_proxy)
        except _RefusedError:
            continue
    return _connect_through(proxy, targets[-1], port, deadline, allow_private_proxy)


def _connect_through(
    proxy: SocksProxy,
    target: str,
    port: int,
    deadline: Deadline,
    allow_private: bool,  # noqa: FBT001 - handed through
) -> socket.socket:
    try:
        connection = dial_host(proxy.host, proxy.port, deadline, allow_private=allow_private)
        try:
            _request_connection(proxy, connection, target, port)
        except BaseException:
            connection.close()
            raise
    # urllib3 raises the same for an HTTP proxy.
    except (OSError, HTTPError) as error:
        raise ProxyError("", error) from None
    return connection


def _request_connection(proxy: SocksProxy, connection: socket.socket, target: str, port: int) -> None:
    """Ask the proxy to connect to a target."""
    way = Proxy(
        python_socks.ProxyType.SOCKS5, proxy.host, proxy.port, proxy.username, proxy.password, rdns=True,
        forward=_ExistingConnection(connection),
    )  # fmt: skip
    # Without a deadline, a proxy that sends single bytes could delay the handshake without end.
    with Deadline(CONNECT_SECONDS) as deadline:
        deadline.watch(connection)
        try:
            way.connect(target, port)
        except (python_socks.ProxyError, OSError) as error:
            if deadline.cancelled or isinstance(error, TimeoutError):
                raise ConnectTimeoutError from None
            if isinstance(error, OSError):
                raise
            raise _classify_refusal(error) from None


def _classify_refusal(error: python_socks.ProxyError) -> AttemptError:
    if error.error_code is not None:
        text, again = _REPLIES[error.error_code]
        return _RefusedError(Exit.NETWORK, f"the SOCKS proxy refused: {text}", transient=again, again=again)
    # python-socks has no types for these errors, only messages, which are not shown.
    if "authentication" in str(error):
        return AttemptError(Exit.NETWORK, "the SOCKS proxy refuses the credentials: check the proxy URL")
    text = "the SOCKS proxy closed the connection, or is not a SOCKS5 proxy"
    return AttemptError(Exit.NETWORK, text, transient=True, again=True)
