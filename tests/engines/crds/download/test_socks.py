"""Downloads by way of a SOCKS5 proxy."""

from pathlib import Path

import pytest

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download import socks
from tests.engines.crds.downloading import BODY, Waits, fetched, refused
from tests.engines.crds.names import naming
from tests.engines.crds.origin import redirects, serving, tarball
from tests.engines.crds.socks_server import Fault, Stage, socks_proxying
from tests.waiting import with_patience

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
    monkeypatch.setattr(socks, "CONNECT_SECONDS", 0.5)
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
