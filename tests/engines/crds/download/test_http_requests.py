"""Tests of the rules for an origin's response."""

import base64
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from urllib3.exceptions import HTTPError, NewConnectionError, ProtocolError

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download import http_requests
from fleethook.engines.crds.download.http_requests import (
    MAX_INTERIM_RESPONSES,
    Address,
    Request,
    Validators,
    build_condition_headers,
    build_credential_headers,
    check_beginning,
    check_credentials,
    continues_partial,
    find_redirect,
    make_status_error,
    parse_address,
    read_strong_etag,
    send_request,
)
from fleethook.engines.crds.download.retries import AttemptError, Deadline, MalformedError
from fleethook.engines.crds.download.transfer import build_tls_context
from fleethook.engines.crds.tarball_source import Credentials, Source
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

    monkeypatch.setattr(http_requests, "dial_host", reset)
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


NOW = datetime(2026, 6, 1, tzinfo=UTC)
URL = "https://h/a/crds.tar.gz"


@pytest.mark.parametrize(
    ("url", "plain", "origin", "userinfo"),
    [
        (" https://H/a b#c ", "https://h/a%20b", ("https", "h", 443), ""),
        ("http://u:p@h:8080", "http://h:8080/", ("http", "h", 8080), "u:p"),
    ],
)
def test_an_address_has_no_userinfo_and_no_fragment(
    url: str, plain: str, origin: tuple[str, str, int], userinfo: str
) -> None:
    assert parse_address(url) == (plain, origin, userinfo)


@pytest.mark.parametrize("url", ["ftp://h/", "/a", "https://", "http://[::1"])
def test_another_url_is_no_address(url: str) -> None:
    assert parse_address(url) is None


@pytest.mark.parametrize(
    ("status", "location", "target"),
    [
        (302, "/b", "https://h/b"),
        (308, "c", "https://h/a/c"),
        (301, "https://other/x#y", "https://other/x"),
        (200, "/b", None),
        (302, "", None),
    ],
)
def test_a_redirect_is_relative_to_its_url(status: int, location: str, target: str | None) -> None:
    assert find_redirect(status, {"Location": location}, URL) == target


@pytest.mark.parametrize(
    ("location", "message"),
    [("http://h/", "redirected from https to http"), ("ftp://h/", "redirected to a URL that is not http or https")],
)
def test_a_redirect_to_a_weaker_scheme_is_refused(location: str, message: str) -> None:
    with pytest.raises(AttemptError, match=message):
        find_redirect(302, {"Location": location}, URL)


@pytest.mark.parametrize(
    ("status", "transient", "again", "text"),
    [
        (404, False, False, "HTTP 404: not found; does this release have a crds.tar.gz?"),
        (503, True, True, "HTTP 503"),
        (501, True, False, "HTTP 501"),
        (407, False, False, "the proxy requires credentials (HTTP 407): give them in the proxy URL"),
    ],
)
def test_a_status_says_whether_to_try_again(status: int, text: str, *, transient: bool, again: bool) -> None:
    error = make_status_error(status, {"Retry-After": "7"}, NOW)
    assert (str(error), error.transient, error.again) == (text, transient, again)
    assert error.after == (7 if again else None)


@pytest.mark.parametrize(
    ("content_range", "etag", "total", "expected"),
    [
        ("bytes 10-99/100", '"a"', 100, True),
        ("bytes 10-99/*", '"a"', None, True),
        ("bytes 0-99/100", '"a"', 100, False),
        ("bytes 10-98/100", '"a"', 100, False),
        ("bytes 10-99/100", '"b"', 100, False),
        ("bytes 10-99/100", '"a"', 200, False),
        ("", '"a"', 100, False),
    ],
)
def test_only_the_rest_of_the_same_body_continues_it(
    content_range: str, etag: str, total: int | None, *, expected: bool
) -> None:
    headers = {"Content-Range": content_range, "ETag": etag}
    assert continues_partial(headers, size=10, etag='"a"', total=total) is expected


@pytest.mark.parametrize(("etag", "strong"), [('"a"', '"a"'), ('W/"a"', ""), ('""', ""), ("a", ""), ("", "")])
def test_a_strong_etag_is_quoted(etag: str, strong: str) -> None:
    assert read_strong_etag({"ETag": etag}) == strong


@pytest.mark.parametrize(
    ("beginning", "encoding", "message"),
    [
        (b"", "", "it is empty"),
        (b"\xef\xbb\xbf <!DOCTYPE html>", "", "an HTML page"),
        (b"\0" * 257 + b"ustar", "", "a plain tar"),
        (b"PK\x03\x04x", "", "it begins with 50 4b 03 04"),
        (b"x", "br", "it has a Content-Encoding"),
    ],
)
def test_a_body_that_is_not_gzip_names_a_likely_format(beginning: bytes, encoding: str, message: str) -> None:
    with pytest.raises(AttemptError, match=message) as caught:
        check_beginning(beginning, {"Content-Encoding": encoding})
    assert caught.value.exit is Exit.ARCHIVE
    check_beginning(b"\x1f\x8b" + beginning, {"Content-Encoding": encoding})


ADDRESS = Address("https://h/c", ("https", "h", 443), "")
KNOWN = Validators('"e"', "Mon, 01 Jun 2026 00:00:00 GMT")


def build(credentials: Credentials, userinfo: str = "", *, own: bool = True) -> dict[str, str]:
    source = Source("https://h/c", credentials=credentials)
    return build_credential_headers(source, ADDRESS._replace(userinfo=userinfo), own=own)


def basic(pair: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def test_a_mirror_of_another_origin_gets_its_own_userinfo_only() -> None:
    given = Credentials(headers=(("X-Token", "t"),), username="u", password="p")
    assert build(given) == {"X-Token": "t", **basic("u:p")}
    assert build(given, own=False) == {}
    assert build(given, "m:n", own=False) == basic("m:n")


def test_a_pair_is_decoded_and_sent_as_utf8() -> None:
    assert build(Credentials(), "%C3%BC:p%40") == basic("ü:p@")
    assert build(Credentials(), "token") == basic("token:")


def test_an_authorization_header_takes_the_place_of_a_pair() -> None:
    given = Credentials(headers=(("authorization", "Bearer t"),), username="u")
    assert build(given, "a:b") == {"authorization": "Bearer t"}


@pytest.mark.parametrize("header", [("X Y", "t"), ("X-Token", "secret\r\nEvil: 1"), ("X-Token", "secret\u20ac")])
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(header: tuple[str, str]) -> None:
    with pytest.raises(CRDsError, match="of the source's credentials cannot be sent") as caught:
        check_credentials(Source("https://h/c", credentials=Credentials(headers=(header,))))
    assert caught.value.exit is Exit.USAGE
    assert "secret" not in str(caught.value)


def test_a_request_asks_for_the_rest_or_for_a_change() -> None:
    assert build_condition_headers(KNOWN, size=5, etag='"p"') == {"Range": "bytes=5-", "If-Range": '"p"'}
    changed = {"If-None-Match": KNOWN.etag, "If-Modified-Since": KNOWN.last_modified}
    assert build_condition_headers(KNOWN, size=5, etag="") == changed
    assert build_condition_headers(Validators(), size=0, etag='"p"') == {}


def test_validators_that_are_no_header_values_are_not_sent() -> None:
    assert Validators('"e"\n', "x" * 1025).usable() == Validators()
    assert KNOWN.usable() == KNOWN
