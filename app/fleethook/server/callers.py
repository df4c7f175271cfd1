"""The callers of reviews: their names in certificates and settings, and their quotas.

TLS refuses a certificate that no authority of ``client_ca_file`` issued, so such an authority vouches for every name
here.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from starlette.types import Scope

from fleethook.fairness import Shares
from fleethook.server.protocol.bodies import BodyCharge

EXTENSION: Final = "fleethook.client"
"""The ASGI extension with the names of a client: its member ``names`` is the result of `find_certificate_names`."""
CONNECTION: Final = "connection"
"""The member of the extension with the `fleethook.server.protocol.connections.ClientConnection` of the request."""
_NAMES: Final = "names"
_IDENTIFYING: Final = frozenset({"DNS", "URI"})


def find_certificate_names(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the names that a certificate gives its holder: the common name, DNS names and URIs.

    Args:
        certificate: A verified certificate from ``ssl.SSLObject.getpeercert()``; None or empty without one.
    """
    if not certificate:
        return frozenset()
    common = [value for rdn in certificate.get("subject", ()) for name, value in rdn if name == "commonName"]
    # Go, and so every Kubernetes component, takes the last of several common names.
    names = common[-1:]
    names += [value for kind, value in certificate.get("subjectAltName", ()) if kind in _IDENTIFYING]
    return frozenset(name for name in names if name)


def describe_certificate(certificate: Mapping[str, Any] | None) -> str | None:
    """Return the name of a certificate's holder for messages and for ASGI's TLS extension, None without a certificate.

    The name is the subject, ``name=value,…``. If the subject is empty (RFC 5280 section 4.1.2.6), as in a SPIFFE
    certificate, the name consists of the alternative names: ``DNS=…``, ``URI=…``, ``IP Address=…``.
    """
    if not certificate:
        return None
    pairs = [pair for rdn in certificate.get("subject", ()) for pair in rdn] or certificate.get("subjectAltName", ())
    return ",".join(f"{name}={value}" for name, value in pairs)


def make_client_extension(certificate: Mapping[str, Any] | None) -> dict[object, object]:
    """Return the value of `EXTENSION` for a connection; the argument is as in `find_certificate_names`."""
    return {_NAMES: find_certificate_names(certificate)}


class NamedCallers:
    """The callers of a setting: a list of names that client certificates may have."""

    def __init__(self, names: Iterable[str]) -> None:
        """Prepare; the comparison of names is case-sensitive."""
        self._names: Final = frozenset(names)

    def __bool__(self) -> bool:
        """Return whether the setting names any caller."""
        return bool(self._names)

    def find(self, scope: Scope) -> str:
        """Return the name of a request's caller in the setting, ``""`` if the setting does not name the caller."""
        presented: frozenset[str] = (scope.get("extensions") or {}).get(EXTENSION, {}).get(_NAMES, frozenset())
        return min(self._names & presented, default="")


class FullQuotaError(Exception):
    """A consumer has used up its share; the text names the setting of the limit."""


class RequestQuota:
    """Counts requests in flight by consumer. Each may have as many as it leaves free, so half of all if it is alone.

    Attributes:
        in_flight: The number of requests by consumer; consumers without requests take no memory.
    """

    def __init__(self, limit: int) -> None:
        """Prepare; ``limit`` is the maximum number of requests in flight of all consumers together."""
        self._shares: Final = Shares(limit)
        self.in_flight: Final = self._shares.held

    @contextlib.contextmanager
    def hold(self, consumer: str, charge: BodyCharge | None = None, *, size: int = 0) -> Iterator[None]:
        """Count one request while it is being answered.

        Args:
            consumer: The logical cluster of the request.
            charge: The memory of the request. From now on, it counts to the consumer. None to charge nothing.
            size: Bytes of the body.

        Raises:
            FullQuotaError: The consumer has reached its share of the requests or the memory.
        """
        if not self._shares.allows(consumer, 1):
            raise FullQuotaError(
                f"{self.in_flight.get(consumer, 0)} requests of logical cluster {consumer} are being answered, which "
                "is its share of max_connections"
            )
        if charge is not None and not charge.assign(f"logical cluster {consumer}", size):
            raise FullQuotaError(f"the requests of logical cluster {consumer} hold its share of body_memory")
        self._shares.take(consumer, 1)
        try:
            yield
        finally:
            self._shares.give_back(consumer, 1)
