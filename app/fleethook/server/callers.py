"""Callers that settings name by their client certificate, and the quota of a caller's requests.

TLS refuses a certificate that no authority of ``client_ca_file`` issued, so such an authority vouches for every name
here.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from starlette.types import Scope

from fleethook.server.protocol.body_memory import BodyCharge

EXTENSION: Final = "fleethook.client"
"""The ASGI extension with the names of a client: its member ``names`` is the result of `find_certificate_names`."""
CONNECTION: Final = "connection"
"""The member of the extension with the `fleethook.server.protocol.connections.Connection` of the request."""
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
        """Prepare; names are compared with case."""
        self._names: Final = frozenset(names)

    def __bool__(self) -> bool:
        """Return whether the setting names any caller."""
        return bool(self._names)

    def find(self, scope: Scope) -> str:
        """Return the name of a request's caller in the setting, ``""`` if the setting does not name the caller."""
        presented: frozenset[str] = (scope.get("extensions") or {}).get(EXTENSION, {}).get(_NAMES, frozenset())
        return min(self._names & presented, default="")


class FullQuotaError(Exception):
    """A consumer has used up its share; the text names the limit and its setting."""


class RequestQuota:
    """Counts requests in flight by consumer.

    Attributes:
        limit: The maximum number of requests in flight of one consumer.
        total: The maximum number of requests in flight of all consumers together.
        in_flight: The number of requests by consumer; consumers without requests take no memory.
    """

    def __init__(self, limit: int, *, total: int) -> None:
        """Prepare."""
        self.limit: Final = limit
        self.total: Final = total
        self.in_flight: Final[dict[str, int]] = {}
        self._sum = 0

    @contextlib.contextmanager
    def hold(self, consumer: str, charge: BodyCharge | None = None, *, size: int = 0) -> Iterator[None]:
        """Count one request while it is being answered.

        Args:
            consumer: The logical cluster of the request.
            charge: The memory of the request, which counts to the consumer from now on; None to charge nothing.
            size: Bytes of the body.

        Raises:
            FullQuotaError: The consumer has reached the limit, or its share of the requests or the memory.
        """
        count = self.in_flight.get(consumer, 0)
        if count >= self.limit:
            raise FullQuotaError(
                f"{self.limit} requests of logical cluster {consumer} are being answered, which is the limit (setting "
                "dispatch_workspace_requests)"
            )
        if count + 1 > self.total - self._sum:
            raise FullQuotaError(
                f"{count} requests of logical cluster {consumer} are being answered, which is its share of "
                "max_connections"
            )
        if charge is not None and not charge.assign(f"logical cluster {consumer}", size):
            raise FullQuotaError(f"the requests of logical cluster {consumer} hold its share of body_memory")
        self.in_flight[consumer] = count + 1
        self._sum += 1
        try:
            yield
        finally:
            self._sum -= 1
            left = self.in_flight[consumer] - 1
            if left:
                self.in_flight[consumer] = left
            else:
                del self.in_flight[consumer]
