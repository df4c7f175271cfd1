"""Dialling a host: its addresses, the order of attempts, and the refusal of private addresses."""

import errno
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from urllib3.exceptions import ConnectTimeoutError

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download import dial, retries
from fleethook.engines.crds.download.dial import Lookups, dial_host, refuse_private_literal, resolve_addresses
from fleethook.engines.crds.download.retries import Cancellation, Deadline, SlowLookupError
from fleethook.outbound.addresses import PrivateAddressError
from tests.engines.crds.downloading import BODY, Waits, fetched, refused
from tests.engines.crds.names import naming
from tests.engines.crds.origin import proxying, redirects, serving, tarball
from tests.engines.crds.socks_server import Fault, Stage, socks_proxying
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
        monkeypatch.setattr(retries, "ATTEMPTS", 1)
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


PAIR = (b"user", b"S3CR3T@:/")
USERINFO = "user:S3CR3T%40%3A%2F"


def test_socks5h_sends_the_name_to_the_proxy(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tarball(BODY)) as origin, socks_proxying(origin) as proxy, naming(monkeypatch) as names:
        fetched(origin, into, url="http://crds.test/x", proxy_url=proxy.url("socks5h"))
    assert into.read_bytes() == BODY
    assert proxy.wanted == ["crds.test:80"]
    assert proxy.methods == [b"\0"]
    assert names.looked_up == []
    assert (origin.asked[0].target, origin.asked[0].headers["host"]) == ("/x", "crds.test")


def test_socks5_sends_a_resolved_address_to_the_proxy(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        serving(tarball(BODY)) as origin,
        socks_proxying(origin) as proxy,
        naming(monkeypatch, crds=["192.0.2.7"]) as names,
    ):
        fetched(origin, into, url="http://crds.test:8080/x", proxy_url=proxy.url("socks5"))
    assert proxy.wanted == ["192.0.2.7:8080"]
    assert names.looked_up == ["crds.test"]
    assert origin.asked[0].headers["host"] == "crds.test:8080"


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
@pytest.mark.parametrize(("host", "told"), [("192.0.2.7", "192.0.2.7"), ("[2001:db8::7]", "2001:db8::7")])
def test_an_address_stays_an_address(into: Path, scheme: str, host: str, told: str) -> None:
    with serving(tarball(BODY)) as origin, socks_proxying(origin) as proxy:
        fetched(origin, into, url=f"http://{host}/x", proxy_url=proxy.url(scheme))
    assert proxy.wanted == [f"{told}:80"]


def test_the_addresses_that_were_looked_up_are_tried_in_order(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = ["2001:db8::1", "192.0.2.1", "192.0.2.2", "192.0.2.3"]
    with serving(tarball(BODY)) as origin, socks_proxying(origin) as proxy, naming(monkeypatch, crds=addresses):
        proxy.replies = {"2001:db8::1": 8, "192.0.2.1": 5}
        assert fetched(origin, into, url="http://crds.test/x", proxy_url=proxy.url("socks5")).attempts == 1
    assert proxy.wanted == ["2001:db8::1:80", "192.0.2.1:80", "192.0.2.2:80"]


def test_tls_is_with_the_origin_and_its_certificate_checked(into: Path, tmp_path: Path) -> None:
    with serving(tarball(BODY), directory=tmp_path) as origin, socks_proxying(origin) as proxy:
        fetched(origin, into, proxy_url=proxy.url("socks5h"))
        into.unlink()
        url = f"https://crds.test:{origin.port}/x"
        failure = refused(origin, into, Exit.TLS, url=url, proxy_url=proxy.url("socks5h"))
    assert str(failure) == f"{url}: x509: certificate is not valid for this name"
    assert proxy.wanted == [f"127.0.0.1:{origin.port}", f"crds.test:{origin.port}"]


def test_redirects_go_through_it_too(into: Path) -> None:
    with serving(redirects("http://store.test/blob"), blob=tarball(BODY)) as origin, socks_proxying(origin) as proxy:
        fetched(origin, into, url="http://crds.test/x", proxy_url=proxy.url("socks5h"))
    assert proxy.wanted == ["crds.test:80", "store.test:80"]


def test_exceptions_are_asked_without_it(into: Path) -> None:
    with serving(tarball(BODY)) as origin, socks_proxying(origin) as proxy:
        fetched(origin, into, proxy_url=proxy.url(), no_proxy=("127.0.0.0/8",))
    assert proxy.connections == 0


def test_one_of_the_environment_counts_too(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with serving(tarball(BODY)) as origin, socks_proxying(origin) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url("socks5h"))
        fetched(origin, into, url="http://crds.test/x")
    assert proxy.wanted == ["crds.test:80"]


def test_one_for_all_schemes_is_not_looked_at_as_go_does_not(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with serving(tarball(BODY)) as origin, socks_proxying(origin) as proxy, naming(monkeypatch):
        monkeypatch.setenv("ALL_PROXY", proxy.url("socks5h"))
        refused(origin, into, Exit.NETWORK, url="http://crds.test/x")
    assert proxy.connections == 0


# ---- Who we are.


def test_credentials_of_its_url_are_given_where_it_asks(into: Path) -> None:
    with serving(tarball(BODY)) as origin, socks_proxying(origin, credentials=PAIR) as proxy:
        fetched(origin, into, proxy_url=proxy.url("socks5h", USERINFO))
    assert proxy.methods == [b"\0\x02"]
    assert proxy.stages == ["greeting", "credentials", "request"]
    assert not {"authorization", "proxy-authorization"} & set(origin.asked[0].headers)


def test_and_not_where_it_does_not(into: Path) -> None:
    with serving(tarball(BODY)) as origin, socks_proxying(origin) as proxy:
        fetched(origin, into, proxy_url=proxy.url("socks5h", USERINFO))
    assert proxy.stages == ["greeting", "request"]


@pytest.mark.parametrize("userinfo", ["", "user:S3CR3T", "S3CR3T:S3CR3T"])
@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_missing_or_wrong_credentials_are_final_and_not_shown(
    into: Path, userinfo: str, scheme: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("DEBUG")
    addresses = ["192.0.2.1", "192.0.2.2"]
    with (
        serving(tarball(BODY)) as origin,
        socks_proxying(origin, credentials=PAIR) as proxy,
        naming(monkeypatch, crds=addresses),
    ):
        url = "http://crds.test/x"
        failure = refused(origin, into, Exit.NETWORK, url=url, proxy_url=proxy.url(scheme, userinfo))
    assert str(failure) == f"{url}: the SOCKS proxy refuses the credentials: check the proxy URL"
    # One attempt only: a proxy may lock out a client with several wrong passwords.
    assert proxy.connections == 1
    assert not failure.transient
    assert "S3CR3T" not in caplog.text


@pytest.mark.parametrize(
    "userinfo", ["user", "user:", ":S3CR3T", f"user:{'S3CR3T' * 50}", "S3CR3T" * 50 + ":x", "user:S3CR3T%C3%BC"]
)
def test_credentials_that_cannot_be_sent_fail_before_any_request(into: Path, userinfo: str) -> None:
    with serving(tarball(BODY)) as origin, socks_proxying(origin) as proxy:
        failure = refused(origin, into, Exit.USAGE, proxy_url=proxy.url("socks5", userinfo))
    assert (
        str(failure) == "invalid proxy URL: user and password of a SOCKS proxy must have 1 to 255 ASCII characters each"
    )
    assert proxy.connections == 0


@pytest.mark.parametrize(
    "proxy",
    ["socks5://", "socks5h://u:S3CR3T@", "socks5://h:0x50", "socks5://u:S3CR3T@h:70000", "socks5://u:S3/CR3T@h:1080",
     "socks5://S3CR3T/@h:1080", "http://S3CR3T#@h:1080", "socks4://u:S3CR3T@h:1080", "socks5://u:S3CR3T@[h"],
)  # fmt: skip
def test_an_invalid_proxy_url_is_a_usage_error(into: Path, proxy: str) -> None:
    with serving(tarball(BODY)) as origin:
        failure = str(refused(origin, into, Exit.USAGE, proxy_url=proxy))
    assert failure.startswith("invalid proxy URL: ")
    assert "S3CR3T" not in failure


# ---- Private addresses.


def test_a_private_proxy_is_not_dialled_unless_allowed(into: Path) -> None:
    with serving(tarball(BODY)) as origin, socks_proxying(origin) as proxy:
        url = "http://crds.test/x"
        failure = refused(origin, into, Exit.NETWORK, url=url, proxy_url=proxy.url("socks5h"), allow_private=False)
    assert str(failure) == f"{url}: a private address, which this download does not allow"
    assert proxy.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "0x7f000001", "[::1]"])
@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_nor_is_one_behind_it(into: Path, host: str, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tarball(BODY)) as origin, socks_proxying(origin) as proxy:
        # The proxy itself is the administrator's choice.
        monkeypatch.setenv("HTTP_PROXY", proxy.url(scheme))
        monkeypatch.setenv("http_proxy", proxy.url(scheme))
        monkeypatch.setenv("NO_PROXY", "")
        monkeypatch.setattr("fleethook.cluster.proxies._is_loopback", lambda _: False)
        refused(origin, into, Exit.NETWORK, url=f"http://{host}/x", allow_private=False)
    assert proxy.wanted == []


def test_nor_a_name_that_turns_out_to_be_one(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        serving(tarball(BODY)) as origin,
        socks_proxying(origin) as proxy,
        naming(monkeypatch, crds=["8.8.8.8", "10.0.0.1"], good=["8.8.8.8"]) as names,
    ):
        monkeypatch.setenv("HTTP_PROXY", proxy.url("socks5"))
        monkeypatch.setenv("http_proxy", proxy.url("socks5"))
        monkeypatch.setenv("NO_PROXY", "")
        refused(origin, into, Exit.NETWORK, url="http://crds.test/x", allow_private=False)
        assert proxy.wanted == []
        assert fetched(origin, into, url="http://good.test/x", allow_private=False).changed
    assert names.looked_up == ["crds.test", "good.test"]
    assert proxy.wanted == ["8.8.8.8:80"]


# ---- Faulty proxies.


@pytest.mark.parametrize(
    ("reply", "text", "again"),
    [
        (1, "general failure", True),
        (2, "its rules do not allow this address", False),
        (3, "network is unreachable", True),
        (4, "host is unreachable", True),
        (5, "connection refused", True),
        (6, "TTL expired", True),
        (7, "command not supported", False),
        (8, "address type not supported", False),
    ],
)
def test_a_refusal_says_why(into: Path, reply: int, text: str, again: bool) -> None:
    with serving(tarball(BODY)) as origin, socks_proxying(origin) as proxy:
        proxy.replies = {"crds.test": reply}
        failure = refused(origin, into, Exit.NETWORK, url="http://crds.test/x", proxy_url=proxy.url("socks5h"))
    after = " (after 4 attempts)" if again else ""
    assert str(failure) == f"http://crds.test/x: the SOCKS proxy refused: {text}{after}"
    assert failure.transient is again
    assert proxy.connections == (4 if again else 1)


@pytest.mark.parametrize("at", ["greeting", "credentials", "request"])
@pytest.mark.parametrize("fault", ["cuts", "resets", "garbage"])
def test_an_end_at_any_stage_is_tried_again(into: Path, fault: Fault, at: Stage) -> None:
    with serving(tarball(BODY)) as origin, socks_proxying(origin, credentials=PAIR, fault=fault, at=at) as proxy:
        failure = refused(origin, into, Exit.NETWORK, proxy_url=proxy.url("socks5h", USERINFO))
    told = {
        "cuts": "the SOCKS proxy closed the connection, or is not a SOCKS5 proxy",
        "resets": "proxy: connection reset by peer",
        "garbage": "the SOCKS proxy closed the connection, or is not a SOCKS5 proxy",
    }
    if (fault, at) == ("garbage", "credentials"):
        assert "the SOCKS proxy refuses the credentials" in str(failure)
        return
    assert str(failure) == f"{origin.url}: {told[fault]} (after 4 attempts)"
    assert failure.transient
    assert proxy.connections == 4
    assert not origin.asked


def test_it_may_be_there_a_moment_later(into: Path) -> None:
    waits = Waits()
    with serving(tarball(BODY)) as origin, socks_proxying(origin, fault="cuts") as proxy:

        def mended(seconds: float) -> None:
            waits.seconds.append(seconds)
            proxy.fault = ""

        found = fetched(origin, into, waits=_Mending(mended), proxy_url=proxy.url())
    assert (found.attempts, waits.seconds) == (2, [1])


class _Mending(Waits):
    def __init__(self, sleep: object) -> None:
        super().__init__()
        self._sleep = sleep

    def timing(self, **rest: object) -> object:
        return super().timing(sleep=self._sleep, **rest)


def test_an_unreachable_proxy_is_named_in_the_error(into: Path) -> None:
    with serving(tarball(BODY)) as origin:
        with socks_proxying(origin) as proxy:
            gone = proxy.url()
        failure = refused(origin, into, Exit.NETWORK, proxy_url=gone)
    assert str(failure) == f"{origin.url}: proxy: connection refused (after 4 attempts)"


def test_so_is_one_without_an_address(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tarball(BODY)) as origin, naming(monkeypatch):
        failure = refused(origin, into, Exit.NETWORK, proxy_url="socks5h://u:S3CR3T@proxy.test")
        assert str(failure) == f"{origin.url}: proxy: no such host"
        url = "http://crds.test/x"
        failure = refused(origin, into, Exit.NETWORK, url=url, proxy_url="socks5://u:S3CR3T@127.0.0.1:1")
        assert str(failure) == f"{url}: no such host"


@pytest.mark.parametrize("at", ["greeting", "credentials", "request"])
@pytest.mark.parametrize("fault", ["hangs", "drips"])
def test_one_that_is_too_slow_is_ended_by_the_total_time(into: Path, fault: Fault, at: Stage) -> None:
    with serving(tarball(BODY)) as origin, socks_proxying(origin, credentials=PAIR, fault=fault, at=at) as proxy:

        def download(seconds: float) -> tuple[float, CRDsError]:
            # Two bytes take longer than the limit.
            proxy.pause = 0.8 * seconds
            url = proxy.url("socks5h", USERINFO)
            return seconds, refused(origin, into, Exit.NETWORK, proxy_url=url, seconds=seconds)

        seconds, failure = with_patience(download, lambda _: at in proxy.stages)
    assert str(failure) == f"{origin.url}: not done within {seconds:g} s"
    assert at in proxy.stages
    assert not origin.asked


@pytest.mark.parametrize("fault", ["hangs", "drips"])
def test_and_by_the_time_to_connect(into: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "CONNECT_SECONDS", 0.5)
    with serving(tarball(BODY)) as origin, socks_proxying(origin, fault=fault, at="request") as proxy:
        failure = refused(origin, into, Exit.NETWORK, proxy_url=proxy.url("socks5h"))
    assert str(failure) == f"{origin.url}: proxy: no connection within 10 s (after 4 attempts)"
    assert failure.transient
    assert proxy.connections == 4


def test_a_name_longer_than_the_protocol_has_room_for_is_an_error(into: Path) -> None:
    long = ".".join(["a" * 63] * 5)
    with serving(tarball(BODY)) as origin, socks_proxying(origin) as proxy:
        failure = refused(origin, into, Exit.NETWORK, url=f"http://{long}/x", proxy_url=proxy.url("socks5h"))
    assert str(failure) == f"http://{long}/x: the host is not a valid name"
    assert proxy.connections == 0


def test_many_downloads_leave_nothing_open(into: Path) -> None:
    with serving(tarball(BODY)) as origin, socks_proxying(origin) as proxy:
        proxy.replies = {"crds.test": 2}
        refused(origin, into, Exit.NETWORK, url="http://crds.test/x", proxy_url=proxy.url("socks5h"))
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(30):
            fetched(origin, into, proxy_url=proxy.url())
            into.unlink()
            refused(origin, into, Exit.NETWORK, url="http://crds.test/x", proxy_url=proxy.url("socks5h"))
        # The proxy's own ends are in the same process.
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 6
