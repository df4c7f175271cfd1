"""Addresses that users give to the hosts of webhooks, because DNS does not know them (as curl's ``--resolve``)."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

FixedAddresses = Mapping[tuple[str, int], tuple[str, int]]
"""Addresses and ports to connect to, by host and port."""
NO_FIXED_ADDRESSES: Final[FixedAddresses] = MappingProxyType({})
FORM: Final = "HOST:PORT:ADDRESS or HOST:PORT:ADDRESS:PORT"

_ENTRY: Final = re.compile(
    r"(?P<host>[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5}):(?P<address>[0-9.]+|\[[0-9A-Fa-f:.]+\])(?::(?P<target>[0-9]{1,5}))?",
    re.ASCII,
)
_MAX_PORT: Final = 65535


def parse_fixed_addresses(entries: Iterable[str]) -> FixedAddresses:
    """Return the addresses of entries such as ``hook.default.svc:443:127.0.0.1:8443``; the first one for a host counts.

    Raises:
        ValueError: An entry is malformed; the text has the entry and the reason.
    """
    found: dict[tuple[str, int], tuple[str, int]] = {}
    for entry in entries:
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError(f"{entry!r}: expected {FORM}")
        port, target = int(match["port"]), int(match["target"] or match["port"])
        if not (0 < port <= _MAX_PORT and 0 < target <= _MAX_PORT):
            raise ValueError(f"{entry!r}: expected ports from 1 to {_MAX_PORT}")
        try:
            address = str(ipaddress.ip_address(match["address"].strip("[]")))
        except ValueError:
            raise ValueError(f"{entry!r}: {match['address']} is not an IP address") from None
        found.setdefault((match["host"].lower(), port), (address, target))
    return found
