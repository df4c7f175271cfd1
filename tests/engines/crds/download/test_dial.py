"""Dialling a host: its addresses, the order of attempts, and the refusal of private addresses."""

import socket
from collections.abc import Iterator

import pytest
from urllib3.exceptions import ConnectTimeoutError

from fleethook.engines.crds.download import dial
from fleethook.engines.crds.download.cancellation import Cancellation, Deadline
from fleethook.engines.crds.download.dial import dial_host, refuse_private_literal, resolve_addresses
from fleethook.outbound.addresses import PrivateAddressError
from tests.waiting import NET


@pytest.fixture
def deadline() -> Iterator[Deadline]:
    with Deadline(NET) as running:
        yield running


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def free_port() -> int:
    """Return a port of loopback that refuses connections."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


def info(address: str, port: int) -> tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int]]:
    return socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port)


def test_a_host_is_connected_without_delay_for_small_writes(listener: socket.socket, deadline: Deadline) -> None:
    with dial_host("127.0.0.1", port_of(listener), deadline, allow_private=True) as made:
        assert made.getpeername() == listener.getsockname()
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "10.0.0.1"])
def test_private_addresses_are_refused_before_a_connection(host: str, deadline: Deadline) -> None:
    with pytest.raises(PrivateAddressError):
        dial_host(host, free_port(), deadline, allow_private=False)


def test_a_name_with_one_private_address_is_refused(deadline: Deadline, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [info("93.184.216.34", 443), info("10.0.0.7", 443)]
    monkeypatch.setattr(dial.LOOKUPS, "find", lambda *_: found)
    assert resolve_addresses("example.org", 443, deadline, allow_private=True) == found
    with pytest.raises(PrivateAddressError):
        resolve_addresses("example.org", 443, deadline, allow_private=False)


def test_the_next_address_is_tried_after_a_refusal(
    listener: socket.socket, deadline: Deadline, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [info("127.0.0.1", free_port()), info("127.0.0.1", port_of(listener))]
    monkeypatch.setattr(dial.LOOKUPS, "find", lambda *_: found)
    with dial_host("example.org", 443, deadline, allow_private=True) as made:
        assert made.getpeername() == listener.getsockname()


def test_the_error_is_that_of_the_last_address(deadline: Deadline) -> None:
    with pytest.raises(ConnectionRefusedError):
        dial_host("127.0.0.1", free_port(), deadline, allow_private=True)


def test_an_address_that_does_not_answer_is_a_timeout(
    listener: socket.socket, deadline: Deadline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def time_out(*_: object) -> socket.socket:
        raise TimeoutError

    monkeypatch.setattr(dial, "_connect", time_out)
    with pytest.raises(ConnectTimeoutError):
        dial_host("127.0.0.1", port_of(listener), deadline, allow_private=True)


def test_after_a_cancellation_no_address_is_tried(listener: socket.socket) -> None:
    cancellation = Cancellation()
    with Deadline(NET, cancellation) as deadline:
        cancellation.cancel()
        with pytest.raises(ConnectionAbortedError):
            dial_host("127.0.0.1", port_of(listener), deadline, allow_private=True)
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_a_cancellation_ends_a_connection(listener: socket.socket) -> None:
    cancellation = Cancellation()
    with (
        Deadline(NET, cancellation) as deadline,
        dial_host("127.0.0.1", port_of(listener), deadline, allow_private=True) as made,
    ):
        cancellation.cancel()
        made.settimeout(NET)
        assert made.recv(1) == b""


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "10.1.2.3", "::1", "fd00::1", "2130706433"])
def test_a_host_that_is_private_by_its_text_is_refused(host: str) -> None:
    with pytest.raises(PrivateAddressError):
        refuse_private_literal(host)


@pytest.mark.parametrize("host", ["example.org", "localhost.example.org", "93.184.216.34", "2606:4700::1111"])
def test_other_hosts_are_left_to_the_proxy(host: str) -> None:
    refuse_private_literal(host)
