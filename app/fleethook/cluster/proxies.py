"""Chooses the proxy for a URL: an explicit one, else that of the environment.

The rules for the environment are those of Go's golang.org/x/net/http/httpproxy, which client-go uses. Python's own
functions ignore networks in NO_PROXY.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit


def choose_proxy(
    url: str, environment: Mapping[str, str], *, explicit: str = "", exceptions: Iterable[str] = ()
) -> str:
    """Return the URL of the proxy for a request; ``""`` for none.

    Args:
        url: An http or https URL with a host.
        environment: Variables as in ``os.environ``; empty to ignore the environment.
        explicit: The URL of a proxy that takes precedence over those of the environment, and their exceptions.
        exceptions: Hosts that are reached without the explicit proxy, as in NO_PROXY.
    """
    parts = urlsplit(url)
    if explicit:
        return "" if _bypasses_proxy(parts, exceptions) else explicit
    proxy = _read_variable(environment, f"{parts.scheme}_proxy")
    # Go never uses a proxy of the environment for loopback hosts.
    if not proxy or _bypasses_proxy(parts, [*_LOOPBACK, *_read_variable(environment, "no_proxy").split(",")]):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


_LOOPBACK: Final = ("localhost", "127.0.0.0/8", "::1")


def _bypasses_proxy(url: SplitResult, patterns: Iterable[str]) -> bool:
    """Return whether a pattern has the host: a name with its subdomains, an address, a network, or ``*``."""
    host, address = url.hostname or "", url.netloc.rpartition("@")[2].lower()
    return any(_matches(host, address, one.strip().lower()) for one in patterns)


def _matches(host: str, address: str, pattern: str) -> bool:
    name = pattern.removeprefix("*").removeprefix(".")
    if not name:
        return pattern == "*"
    return name == address or f".{host}".endswith(f".{name}") or _is_in_network(host, name)


def _is_in_network(host: str, network: str) -> bool:
    try:
        return "/" in network and ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _read_variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper(), "") or environment.get(name, "")
