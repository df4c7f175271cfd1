"""Validation of the fields that all webhook configurations have; tests/conformance has more cases."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.model.formats.client_config_and_addresses import parse_fixed_addresses, parse_url, url_problems


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
    found = parse_url(url)
    assert (found.scheme, found.user, found.hostname, found.port) == (scheme, user, hostname, port)


@given(st.one_of(st.text(), st.text("htps:/@[]%.0a?#-* \0é").map("http:".__add__)))
def test_any_text_is_a_url_or_an_error(text: str) -> None:
    try:
        told = f"its host is {parse_url(text).hostname}"
    except ValueError as error:
        told = str(error)
    assert told


FORM = "; desired format: https://host[/path]"


def texts(url: Any) -> list[str]:
    return [problem.text for problem in url_problems(url, "url")]


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com", "HTTPS://example.com", "https://example.com:", "https://example.com:8443/a%20b", "https://[::1]:443/x",
        "https://[::1%25eth0]", "https://example.com/a:b", "https://bücher.example", "https://%c3%bc.example", "https://a_b",
        "https://example.com?", "https://example.com/#",
    ],
)  # fmt: skip
def test_urls_that_go_accepts_are_valid(url: str) -> None:
    assert texts(url) == []


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://example.com:port", 'parse "https://example.com:port": invalid port ":port" after host'),
        ("https://a:b:1", 'parse "https://a:b:1": invalid port ":b:1" after host'),
        ("https://exa mple.com", 'parse "https://exa mple.com": invalid character " " in host name'),
        ("https://%41.example", 'parse "https://%41.example": invalid URL escape "%41"'),
        ("https://example.com/%zz", 'parse "https://example.com/%zz": invalid URL escape "%zz"'),
        ("https://example.com/#%zz", 'parse "https://example.com/#%zz": invalid URL escape "%zz"'),
        ("https://[::1", "parse \"https://[::1\": missing ']' in host"),
        ("https://[::1]x", 'parse "https://[::1]x": invalid port "x" after host'),
        ("https://[1]", 'parse "https://[1]": invalid host: not an IPv6 address'),
        ("https://x[::1]", 'parse "https://x[::1]": invalid IP-literal'),
        ("https://us er@host", 'parse "https://us er@host": net/url: invalid userinfo'),
        ("https://example.com\t", 'parse "https://example.com\\t": net/url: invalid control character in URL'),
        ("://example.com", 'parse "://example.com": missing protocol scheme'),
        ("127.0.0.1:443/x", 'parse "127.0.0.1:443/x": first path segment in URL cannot contain colon'),
        (" https://a", 'parse " https://a": first path segment in URL cannot contain colon'),
    ],
)
def test_invalid_urls_have_the_messages_of_go(url: str, reason: str) -> None:
    assert texts(url) == [f"Required value: url must be a valid URL: {reason}{FORM}"]


def test_all_problems_of_a_url_are_reported() -> None:
    assert texts("http://me:a@b@/?q#f%41") == [
        f"Invalid value: \"http\": 'https' is the only allowed URL scheme{FORM}",
        f'Invalid value: "": host must be specified{FORM}',
        'Invalid value: "me:a%40b": user information is not permitted in the URL',
        'Invalid value: "fA": fragments are not permitted in the URL',
        'Invalid value: "q": query parameters are not permitted in the URL',
    ]


def test_a_scheme_without_slash_has_no_host() -> None:
    assert texts("https:example.com%zz") == [f'Invalid value: "": host must be specified{FORM}']


def test_the_first_address_of_a_host_and_port_counts() -> None:
    entries = ["Hook.ns.svc:443:10.0.0.1", "hook.ns.svc:443:10.0.0.2", "hook.ns.svc:80:[fd00::1]:8443"]
    assert parse_fixed_addresses(entries) == {
        ("hook.ns.svc", 443): ("10.0.0.1", 443),
        ("hook.ns.svc", 80): ("fd00::1", 8443),
    }


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("hook", "expected HOST:PORT:ADDRESS or HOST:PORT:ADDRESS:PORT"),
        ("hook:443", "expected HOST:PORT:ADDRESS"),
        ("hook:https:10.0.0.1", "expected HOST:PORT:ADDRESS"),
        ("hook:443:other.example.org", "expected HOST:PORT:ADDRESS"),
        ("hook:443:fd00::1", "expected HOST:PORT:ADDRESS"),
        ("hook:443:10.0.0.1:", "expected HOST:PORT:ADDRESS"),
        ("hook:443:10.0.0.256", "10.0.0.256 is not an IP address"),
        ("hook:443:[10.0.0.1.1]", "is not an IP address"),
        ("hook:0:10.0.0.1", "expected ports from 1 to 65535"),
        ("hook:443:10.0.0.1:65536", "expected ports from 1 to 65535"),
    ],
)
def test_a_malformed_entry_is_named(entry: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        parse_fixed_addresses([entry])
    assert str(caught.value).startswith(repr(entry))
