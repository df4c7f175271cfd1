"""Dialling a host: its addresses, the order of attempts, and the refusal of private addresses."""

import errno
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from urllib3.exceptions import ConnectTimeoutError

from fleethook.engines.crds.crds_errors import Exit
from fleethook.engines.crds.download import attempt_errors, dial
from fleethook.engines.crds.download.attempt_errors import SlowLookupError
from fleethook.engines.crds.download.cancellation import Cancellation, Deadline
from fleethook.engines.crds.download.dial import Lookups, dial_host, refuse_private_literal, resolve_addresses
from fleethook.outbound.addresses import PrivateAddressError
from tests.engines.crds.downloading import BODY, fetched, refused
from tests.engines.crds.names import naming
from tests.engines.crds.origin import proxying, redirects, serving, tarball
from tests.waiting import NET, with_patience


def test_a_name_is_looked_up_once_for_each_connection(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        naming(monkeypatch, crds=["127.0.0.1"], store=["127.0.0.1"]) as names,
        serving(tarball(BODY)) as store,
        serving(redirects(f"http://store.test:{store.port}/x")) as origin,
    ):
        fetched(origin, into, url=f"http://crds.test:{origin.port}/x")
    assert names.looked_up == ["crds.test", "store.test"]
    assert origin.asked[0].headers["host"] == f"crds.test:{origin.port}"


def test_addresses_are_dialled_in_order_until_one_accepts(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dialled = []
    real = dial._connect

    def watched(info: dial.Info, deadline: Deadline) -> socket.socket:
        dialled.append(info[4][0])
        return real(info, deadline)

    monkeypatch.setattr(dial, "_connect", watched)
    addresses = ["127.0.0.3", "127.0.0.2", "127.0.0.1", "127.0.0.4"]
    with naming(monkeypatch, crds=addresses) as names, serving(tarball(BODY)) as origin:
        assert fetched(origin, into, url=f"http://crds.test:{origin.port}/x").attempts == 1
    assert dialled == addresses[:3]
    assert names.looked_up == ["crds.test"]


def test_the_checked_addresses_are_dialled(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The second answer would be the origin's own address.
    answers = [["8.8.8.8"], ["127.0.0.1"]]
    with naming(monkeypatch) as names, serving(tarball(BODY)) as origin:

        def rebinding(name: str, *rest: int) -> list[dial.Info]:
            names.addresses[name] = answers.pop(0)
            return names(name, *rest)

        monkeypatch.setattr(dial, "getaddrinfo", rebinding)
        dialled = []

        def refusing(info: dial.Info, _: Deadline) -> socket.socket:
            dialled.append(info[4][0])
            raise OSError(22, "not for this test")

        monkeypatch.setattr(dial, "_connect", refusing)
        monkeypatch.setattr(attempt_errors, "ATTEMPTS", 1)
        url = f"http://crds.test:{origin.port}/x"
        failure = refused(origin, into, Exit.NETWORK, url=url, allow_private=False)
    assert "invalid argument" in str(failure)
    assert dialled == ["8.8.8.8"]
    assert answers == [["127.0.0.1"]]
    assert not origin.connections


@pytest.mark.parametrize("broken", [ConnectionResetError, BrokenPipeError])
def test_a_connection_that_breaks_while_it_is_made_is_tried_again(
    into: Path, broken: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaking(*_: object) -> socket.socket:
        raise broken(errno.ECONNRESET, "S3CR3T")

    monkeypatch.setattr(dial, "_connect", breaking)
    with serving(tarball(BODY)) as origin:
        failure = refused(origin, into, Exit.NETWORK)
    assert str(failure) == f"{origin.url}: connection reset by peer (after 4 attempts)"


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["8.8.8.8", "::1"], ["127.0.0.1", "8.8.8.8"]])
def test_one_private_address_of_several_is_enough_not_to_dial(
    into: Path, addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with naming(monkeypatch, crds=addresses), serving(tarball(BODY)) as origin:
        url = f"http://crds.test:{origin.port}/x"
        failure = refused(origin, into, Exit.NETWORK, url=url, allow_private=False)
    assert str(failure) == f"{url}: a private address, which this download does not allow"
    assert not origin.connections


@pytest.mark.parametrize("allow_private", [False, True])
def test_a_resolver_that_hangs_is_given_up_and_named(
    into: Path, allow_private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dial, "CONNECT_SECONDS", 0.2)
    with naming(monkeypatch) as names, serving(tarball(BODY)) as origin:
        url = "http://hanging.test/x?token=S3CR3T"
        failure = refused(origin, into, Exit.NETWORK, url=url, allow_private=allow_private)
    text = "http://hanging.test/x?token=***: the name hanging.test was not resolved within 10 s (after 4 attempts)"
    assert str(failure) == text
    assert failure.transient
    assert names.hanging == 4


def test_a_slow_lookup_of_the_proxy_names_the_proxy(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "CONNECT_SECONDS", 0.2)
    with naming(monkeypatch), serving(tarball(BODY)) as origin:
        for proxy in ("http://u:S3CR3T@hanging.test", "socks5h://u:S3CR3T@hanging.test"):
            failure = refused(origin, into, Exit.NETWORK, proxy_url=proxy)
            text = f"{origin.url}: proxy: the name hanging.test was not resolved within 10 s (after 4 attempts)"
            assert str(failure) == text


def test_the_total_time_ends_it_too(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "CONNECT_SECONDS", NET)
    with naming(monkeypatch), serving(tarball(BODY)) as origin:
        failure = refused(origin, into, Exit.NETWORK, url="http://hanging.test/x", seconds=0.3)
    assert str(failure) == "http://hanging.test/x: not done within 0.3 s"


def test_a_mirror_is_asked_when_a_name_hangs(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with naming(monkeypatch), serving(tarball(BODY)) as origin:

        def attempts(seconds: float) -> int:
            monkeypatch.setattr(dial, "CONNECT_SECONDS", seconds)
            into.unlink(missing_ok=True)
            return fetched(origin, into, url="http://hanging.test/x", mirrors=(origin.url,)).attempts

        assert with_patience(attempts, lambda attempts: attempts == 5) == 5


def test_the_proxy_is_resolved_here_and_the_origin_is_not(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with naming(monkeypatch, proxy=["127.0.0.1"]) as names, serving(tarball(BODY)) as origin, proxying(origin) as proxy:
        fetched(origin, into, url="http://crds.test/x", proxy_url=f"http://proxy.test:{proxy.port}")
    assert names.looked_up == ["proxy.test"]


def test_no_more_threads_are_left_behind_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "CONNECT_SECONDS", 0.1)
    lookups = Lookups(limit=2)
    with naming(monkeypatch, crds=["192.0.2.1"]) as names, Deadline(NET) as deadline:
        for name in ("hanging.test", "hanging.test", "hanging.test", "crds.test"):
            with pytest.raises(SlowLookupError):
                lookups.find(name, 80, deadline)
        assert names.looked_up == ["hanging.test", "hanging.test"]
        # An address needs no dial.
        assert [info[4][0] for info in lookups.find("192.0.2.7", 80, deadline)] == ["192.0.2.7"]
        monkeypatch.setattr(dial, "CONNECT_SECONDS", NET)
        threading.Timer(0.1, names.released.set).start()
        # It waits for one that has become free.
        assert [info[4] for info in lookups.find("crds.test", 80, deadline)] == [("192.0.2.1", 80)]
        assert [info[4] for info in lookups.find("crds.test", 81, deadline)] == [("192.0.2.1", 81)]


def test_a_lookup_that_breaks_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = Lookups(limit=1)
    with naming(monkeypatch, crds=["192.0.2.1"]), Deadline(NET) as deadline:
        for _ in range(3):
            with pytest.raises(socket.gaierror):
                lookups.find("none.test", 80, deadline)
        assert lookups.find("crds.test", 80, deadline)


@pytest.mark.parametrize("name", ["a..b", "x" * 64])
def test_an_invalid_name_is_not_retried(into: Path, name: str) -> None:
    with serving(tarball(BODY)) as origin:
        failure = refused(origin, into, Exit.NETWORK, url=f"http://{name}.test/x")
    assert str(failure) == f"http://{name}.test/x: the host is not a valid name"


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
