"""Addresses of webhooks without DNS."""

import pytest

from fleethook.model.formats.fixed_addresses import parse_fixed_addresses


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
