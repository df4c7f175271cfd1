"""Recognizes webhooks that are this server's own dispatch routes, so that dispatch never calls them.

Such a webhook would send the review to the same webhooks again, and so to itself. Other routes of this server, such as
those of overriders, are webhooks like any other: they call nobody, and to skip them would admit objects unchecked.

An address that is not known here, such as that of a load balancer, is not recognized. Calls therefore carry a header
(`app.outbound.hops`), by which a dispatch route refuses a review that was dispatched before.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from yarl import URL

from app.dispatch.hooks import Hook
from app.registration.paths import CLUSTERS, DISPATCH_MUTATE, DISPATCH_VALIDATE
from app.registration.webhooks import service_of

_VERBS: Final = ("mutate", "validate")
# Distinct URLs of webhooks that requests meet; a URL is parsed in some 10 us.
_REMEMBERED: Final = 4096


class Address(NamedTuple):
    """An address under which this server is called."""

    host: str
    """A name or a number, without brackets."""
    port: int
    base: str = ""
    """The prefix that a proxy in front of this server removes from paths, without a slash at the end."""


class OwnEndpoints:
    """Recognizes this server's own dispatch routes."""

    def __init__(self, addresses: Callable[[], Iterable[Address]] = tuple) -> None:
        """Prepare.

        Args:
            addresses: Returns the addresses under which this server is called. They may grow while it starts.
        """
        self._addresses: Final = addresses

    def reason(self, hook: Hook) -> str:
        """Return why a webhook is not called, ``""`` if it is not one of this server's dispatch routes."""
        if hook.endpoint is None:
            return ""
        host, port, path = _parts(hook.endpoint.url)
        # Most webhooks end otherwise, so that addresses need not be compared.
        if not path.endswith(_VERBS) or not any(
            _normal(one.host) == host and one.port == port and _dispatches(path, one.base) for one in self._addresses()
        ):
            return ""
        where = f"of logical cluster {hook.cluster}" if hook.cluster else "of this cluster"
        return (
            f"{hook.endpoint.url} is a dispatch route of this fleethook, which would ask the same webhooks again: "
            f"remove the webhook from the configuration {hook.configuration} {where}"
        )


@lru_cache(maxsize=_REMEMBERED)
def _parts(url: str) -> tuple[str, int, str]:
    """Return host, port and path as they are called; ``""`` for the host of no URL."""
    try:
        parsed = URL(url)
        return _normal(parsed.host or ""), parsed.port or 0, parsed.path
    except ValueError:
        return "", 0, ""


def list_own_addresses(
    *, service: str | None, webhook_url: str | None, names: Iterable[str], port: int
) -> list[Address]:
    """Return the addresses under which a server is called, as far as its settings tell.

    Args:
        service: ``NAMESPACE/NAME[:PORT]`` of the Service in front of it.
        webhook_url: Its address for an apiserver that does not call a Service.
        names: Names and numbers of the machine that it runs on.
        port: The port that it listens on.
    """
    found = [Address(name, port) for name in names]
    if service is not None:
        reference = service_of(service)
        found += [Address(name, reference.port) for name in reference.names()]
    if webhook_url is not None:
        host, number, path = _parts(webhook_url)
        found.append(Address(host, number, path.rstrip("/")))
    return found


def _normal(host: str) -> str:
    return host.lower().rstrip(".")


def _dispatches(path: str, base: str) -> bool:
    if not path.startswith(base):
        return False
    path = path.removeprefix(base)
    if path in (DISPATCH_MUTATE, DISPATCH_VALIDATE):
        return True
    cluster, _, verb = path.removeprefix(CLUSTERS).rpartition("/")
    return path.startswith(CLUSTERS) and bool(cluster) and verb in _VERBS
