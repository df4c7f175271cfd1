"""Recognizes webhooks that are this server's own dispatch routes, so that dispatch never calls them.

Such a webhook would send the review to the same webhooks again, and so to itself. Other routes of this server, such as
those of overriders, are called like any webhook: they call no other webhook, and skipping them would admit objects
unchecked.

An unknown address, such as that of a load balancer, is not recognized. Calls therefore carry a header
(`fleethook.outbound.http_exchange`), and dispatch routes refuse reviews with that header.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from yarl import URL

from fleethook.cluster.registration.configuration_objects import service_of
from fleethook.cluster.registration.paths import (
    CLUSTER_MUTATE,
    CLUSTER_VALIDATE,
    DISPATCH_MUTATE,
    DISPATCH_VALIDATE,
    split_cluster_path,
)
from fleethook.engines.dispatch.webhooks.webhook import Webhook

_VERBS: Final = ("mutate", "validate")
# The number of URLs whose parts are cached. Parsing a URL takes about 10 us.
_MAX_CACHED: Final = 4096


class Address(NamedTuple):
    """An address of this server."""

    host: str
    """A host name or an IP address, without brackets."""
    port: int
    base: str = ""
    """The path prefix that a reverse proxy removes, without a trailing slash."""


class OwnEndpoints:
    """Recognizes this server's own dispatch routes."""

    def __init__(self, addresses: Callable[[], Iterable[Address]] = tuple) -> None:
        """Initialize the recognition.

        Args:
            addresses: Returns the addresses of this server. More may be added while it starts.
        """
        self._addresses: Final = addresses

    def find_reason(self, hook: Webhook) -> str:
        """Return why a webhook is skipped, ``""`` if it is not a dispatch route of this server."""
        if hook.endpoint is None:
            return ""
        host, port, path = _split_url(hook.endpoint.url)
        # Most paths have another ending, so that addresses need not be compared.
        if not path.endswith(_VERBS) or not any(
            _normalize(one.host) == host and one.port == port and _is_dispatch_path(path, one.base)
            for one in self._addresses()
        ):
            return ""
        where = f"of logical cluster {hook.cluster}" if hook.cluster else "of this cluster"
        return (
            f"{hook.endpoint.url} is a dispatch route of this fleethook, which would call the same webhooks again: "
            f"remove the webhook from the configuration {hook.configuration} {where}"
        )


@lru_cache(maxsize=_MAX_CACHED)
def _split_url(url: str) -> tuple[str, int, str]:
    """Return host, port and path of a URL; the host is ``""`` if the URL is invalid."""
    try:
        parsed = URL(url)
        return _normalize(parsed.host or ""), parsed.port or 0, parsed.path
    except ValueError:
        return "", 0, ""


def list_own_addresses(
    *, service: str | None, webhook_url: str | None, names: Iterable[str], port: int
) -> list[Address]:
    """List the addresses of a server that are known from its settings.

    Args:
        service: ``NAMESPACE/NAME[:PORT]`` of its Service.
        webhook_url: Its URL for apiservers that do not call a Service.
        names: Host names and IP addresses of its machine.
        port: Its listening port.
    """
    found = [Address(name, port) for name in names]
    if service is not None:
        reference = service_of(service)
        found += [Address(name, reference.port) for name in reference.names()]
    if webhook_url is not None:
        host, number, path = _split_url(webhook_url)
        found.append(Address(host, number, path.rstrip("/")))
    return found


def _normalize(host: str) -> str:
    return host.lower().rstrip(".")


def _is_dispatch_path(path: str, base: str) -> bool:
    if not path.startswith(base):
        return False
    path = path.removeprefix(base)
    if path in (DISPATCH_MUTATE, DISPATCH_VALIDATE):
        return True
    route, cluster = split_cluster_path(path)
    return bool(cluster) and route in (CLUSTER_MUTATE, CLUSTER_VALIDATE)
