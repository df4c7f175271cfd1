"""The parts of a URL as Go parses it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.model.formats.go_url import parse_request_uri


@pytest.mark.parametrize(
    ("url", "scheme", "user", "hostname", "port"),
    [
        ("HTTPS://u:p@Host:8443/a?b", "https", "u:p", "Host", "8443"),
        ("http://a@b@h/", "http", "a@b", "h", ""),
        ("http://@h/", "http", "", "h", ""),
        ("http://[::1]:80/", "http", None, "::1", "80"),
        ("http://[::1]/", "http", None, "::1", ""),
        ("http://:80/", "http", None, "", "80"),
        ("http://h:/", "http", None, "h", ""),
        ("http:h/", "http", None, "", ""),
        ("//h/", "", None, "", ""),
        ("http://h?a@b/", "http", None, "h", ""),
    ],
)
def test_urls_are_split_into_parts(url: str, scheme: str, user: str | None, hostname: str, port: str) -> None:
    found = parse_request_uri(url)
    assert (found.scheme, found.user, found.hostname, found.port) == (scheme, user, hostname, port)


@given(st.one_of(st.text(), st.text("htps:/@[]%.0a?#-* \0é").map("http:".__add__)))
def test_any_text_is_a_url_or_an_error(text: str) -> None:
    try:
        told = f"its host is {parse_request_uri(text).hostname}"
    except ValueError as error:
        told = str(error)
    assert told
