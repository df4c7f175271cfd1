"""Tests of the rules for an origin's response."""

from datetime import UTC, datetime

import pytest

from fleethook.engines.crds.crds_errors import Exit
from fleethook.engines.crds.download.response import (
    check_beginning,
    continues_partial,
    find_redirect,
    make_status_error,
    parse_address,
    read_strong_etag,
)
from fleethook.engines.crds.download.retry import AttemptError

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
