"""One request over a connection of its own: proxies, interim responses, and lengths."""

import logging
from collections.abc import Callable, Iterator

import pytest
from urllib3.exceptions import HTTPError, NewConnectionError, ProtocolError

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download import http_connection
from fleethook.engines.crds.download.http_connection import MAX_INTERIM_RESPONSES, Request, send_request
from fleethook.engines.crds.download.retries import Deadline, MalformedError
from fleethook.engines.crds.download.transfer import build_tls_context
from fleethook.engines.crds.http_source import Source
from fleethook.outbound.addresses import PrivateAddressError
from tests.engines.crds.origin import Asked, head, proxying, says, serving
from tests.engines.crds.origin import Connection as OriginConnection
from tests.waiting import NET


@pytest.fixture
def deadline() -> Iterator[Deadline]:
    with Deadline(NET) as running:
        yield running


def request_to(url: str, ca_pem: bytes = b"", **given: object) -> Request:
    context = build_tls_context(Source(url, ca_pem=ca_pem), identified=False)
    return Request(url, {"Accept": "*/*"}, context, **given)  # type: ignore[arg-type]


def get(request: Request, deadline: Deadline) -> tuple[int, bytes]:
    with send_request(request, deadline) as response:
        return response.status, response.read(decode_content=False)


def writes(*parts: bytes) -> Callable[[Asked, OriginConnection], None]:
    """Answer with these bytes."""

    def answer(_: Asked, to: OriginConnection) -> None:
        for part in parts:
            to.send(part)

    return answer


def test_a_response_comes_undecoded_with_its_status(deadline: Deadline) -> None:
    with serving(says(b"\x1f\x8b", status="404 Not Found", content_encoding="gzip")) as origin:
        assert get(request_to(origin.url, origin.ca_pem), deadline) == (404, b"\x1f\x8b")
    asked = origin.asked[0].headers
    assert (asked["host"], asked["accept"], asked["accept-encoding"]) == (f"127.0.0.1:{origin.port}", "*/*", "identity")


def test_a_redirect_is_not_followed(deadline: Deadline) -> None:
    with serving(says(status="302 Found", location="/elsewhere")) as origin:
        assert get(request_to(origin.url, origin.ca_pem), deadline)[0] == 302
    assert len(origin.asked) == 1


@pytest.mark.parametrize("interim", [0, 1, MAX_INTERIM_RESPONSES])
def test_interim_responses_are_skipped(deadline: Deadline, interim: int) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * interim
    with serving(writes(hints, head(content_length=2), b"ok")) as origin:
        assert get(request_to(origin.url, origin.ca_pem), deadline) == (200, b"ok")


def test_interim_responses_without_an_end_are_refused(deadline: Deadline) -> None:
    hints = b"HTTP/1.1 100 Continue\r\n\r\n" * (MAX_INTERIM_RESPONSES + 1)
    with serving(writes(hints)) as origin, pytest.raises((MalformedError, HTTPError), match="more than 100 interim"):
        get(request_to(origin.url, origin.ca_pem), deadline)


def test_two_different_lengths_are_refused(deadline: Deadline) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc"
    with serving(writes(answer)) as origin, pytest.raises((MalformedError, HTTPError), match="two different"):
        get(request_to(origin.url, origin.ca_pem), deadline)


def test_equal_lengths_are_one_length(deadline: Deadline) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nab"
    with serving(writes(answer)) as origin:
        assert get(request_to(origin.url, origin.ca_pem), deadline)[0] == 200


def test_a_connection_that_is_reset_while_dialling_is_a_failure_to_connect(
    deadline: Deadline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reset(*_: object, **__: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(http_connection, "dial_host", reset)
    with pytest.raises(NewConnectionError):
        get(request_to("http://127.0.0.1:9/crds.tar.gz"), deadline)


def test_a_private_host_is_refused_if_private_addresses_are_not_allowed(deadline: Deadline) -> None:
    with serving(says(b"ok")) as origin:
        with pytest.raises(ProtocolError) as raised:
            get(request_to(origin.url, origin.ca_pem, allow_private=False), deadline)
        assert isinstance(raised.value.args[1], PrivateAddressError)
        assert origin.connections == 0


def test_a_proxy_gets_its_credentials_and_the_origin_does_not(deadline: Deadline) -> None:
    with serving(says(b"ok")) as origin, proxying(origin, credentials="us@er:pass") as proxy:
        url = proxy.url.replace("us@er", "us%40er")
        assert get(request_to(origin.url, proxy_url=url), deadline) == (200, b"ok")
    assert "proxy-authorization" in proxy.asked[0].headers
    assert "proxy-authorization" not in origin.asked[0].headers


@pytest.mark.parametrize(
    ("proxy", "text"),
    [
        ("ftp://proxy:21", "it must be http, https or socks5"),
        ("http://", "it must be http, https or socks5"),
        ("http://[::1", "it must have a host"),
        ("http://user:pa/ss@proxy:80", "percent-encode the user and the password"),
    ],
)
def test_an_unusable_proxy_is_a_usage_error_without_its_password(deadline: Deadline, proxy: str, text: str) -> None:
    with pytest.raises(CRDsError, match=text) as raised:
        get(request_to("http://127.0.0.1:9/", proxy_url=proxy), deadline)
    assert raised.value.exit is Exit.USAGE
    assert "pa/ss" not in str(raised.value)


def test_a_query_is_not_logged(deadline: Deadline, caplog: pytest.LogCaptureFixture) -> None:
    with serving(says(b"ok")) as origin, caplog.at_level(logging.DEBUG):
        get(request_to(f"{origin.url}?signature=secret", origin.ca_pem), deadline)
    assert "signature" not in caplog.text


def test_the_connection_ends_with_the_block_without_reading_the_body(deadline: Deadline) -> None:
    def endless(_: Asked, to: OriginConnection) -> None:
        to.send(head())
        while True:
            to.send(b"x" * 65536)

    with serving(endless) as origin, send_request(request_to(origin.url, origin.ca_pem), deadline) as response:
        assert response.read1(10, decode_content=False)
