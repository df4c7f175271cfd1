"""Chooses the proxy for a URL: an explicit one, else that of the environment.

The rules for the environment are those of Go's golang.org/x/net/http/httpproxy, which client-go uses.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import SplitResult, urlsplit


def choose_proxy(
    url: str, environment: Mapping[str, str], *, explicit: str = "", exceptions: Iterable[str] = ()
) -> str:
    """Return the URL of the proxy for a request; ``""`` for none.

    Args:
        url: An http or https URL with a host.
        environment: Variables as in ``os.environ``; empty to ignore the environment.
        explicit: The URL of a proxy that takes precedence over those of the environment, and their exceptions.
        exceptions: Hosts that are reached without the explicit proxy, see `bypasses_proxy`.
    """
    parts = urlsplit(url)
    if explicit:
        return "" if bypasses_proxy(parts, exceptions) else explicit
    if _is_loopback(parts.hostname or ""):
        return ""
    # A CGI server sets HTTP_PROXY from the Proxy header of a request (httpoxy, CVE-2016-5386).
    untrusted = parts.scheme == "http" and "REQUEST_METHOD" in environment
    proxy = _read_variable(environment, f"{parts.scheme}_proxy", upper=not untrusted)
    if not proxy or bypasses_proxy(parts, _read_variable(environment, "no_proxy").split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def bypasses_proxy(url: SplitResult, patterns: Iterable[str]) -> bool:
    """Return whether a request goes to the host without a proxy.

    Args:
        url: The URL, split.
        patterns: ``*``, names (with their subdomains), ``.suffix`` or ``*.suffix`` (subdomains only), addresses and
            networks; each except a network may have a ``:port``.
    """
    host = (url.hostname or "").rstrip(".")
    try:
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError:
        return False
    return any(_matches(host, port, pattern.strip().lower()) for pattern in patterns)


def _matches(host: str, port: int, pattern: str) -> bool:
    if pattern in ("", "*"):
        return pattern == "*"
    if "/" in pattern:
        return _is_in_network(host, pattern)
    name, colon, wanted = pattern.rpartition(":")
    if colon and wanted.isdigit() and (":" not in name or name.endswith("]")):
        if int(wanted) != port:
            return False
        pattern = name
    pattern = pattern.strip("[]").removeprefix("*")
    if pattern.startswith("."):
        return host.endswith(pattern)
    return host == pattern or host.endswith(f".{pattern}")


def _is_in_network(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    # Go never uses a proxy of the environment for loopback hosts, regardless of NO_PROXY.
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read_variable(environment: Mapping[str, str], name: str, *, upper: bool = True) -> str:
    return (environment.get(name.upper(), "") if upper else "") or environment.get(name, "")
