"""The callers of reviews: their names in certificates and settings, their tokens and rights, and their quotas.

TLS refuses a certificate that no authority of ``client_ca_file`` issued, so such an authority vouches for every name
here.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from starlette.types import Scope

from fleethook.fairness import Shares
from fleethook.model.json import JSON, JSONObject, as_object
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


TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REVIEW_SECONDS: Final = 5.0
"""The longest wait for an apiserver's answer to one review."""


class ReviewedUser(NamedTuple):
    """The user of a token, as an apiserver describes it; ``extra`` is sorted by key."""

    name: str
    uid: str
    groups: tuple[str, ...]
    extra: tuple[tuple[str, tuple[str, ...]], ...]


def build_token_review(token: str, audiences: Sequence[str]) -> JSONObject:
    """Build the TokenReview for a token.

    Args:
        token: The bearer token.
        audiences: The token must be for one of these. If there are none, it must be for the apiserver itself.
    """
    spec: JSONObject = {"token": token}
    if audiences:
        spec["audiences"] = list(audiences)
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}


def read_reviewed_user(answer: JSON, audiences: Sequence[str]) -> ReviewedUser | None:
    """Return the user in an answered TokenReview, None if the token is not accepted or not for one of ``audiences``."""
    status: Mapping[str, Any] = as_object(as_object(answer).get("status"))
    user = as_object(status.get("user"))
    name = user.get("username")
    if status.get("authenticated") is not True or not isinstance(name, str) or not name:
        return None
    # An apiserver without support for audiences returns none. It then accepts only tokens for the apiserver itself.
    if audiences and not set(audiences) & set(_texts(status.get("audiences"))):
        return None
    extra = tuple(sorted((key, _texts(values)) for key, values in as_object(user.get("extra")).items()))
    return ReviewedUser(name, str(user.get("uid") or ""), _texts(user.get("groups")), extra)


def is_allowed(answer: JSON) -> bool:
    """Return whether an answered SubjectAccessReview gives the right."""
    status = as_object(as_object(answer).get("status"))
    return status.get("allowed") is True and status.get("denied") is not True


def _texts(value: JSON) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


_BEARER: Final = "bearer"

Post = Callable[..., Awaitable[JSON]]
"""Sends a request to the apiserver, as `fleethook.cluster.connection.Connection.json` does."""


class AccessQuestion(NamedTuple):
    """The attributes of one SubjectAccessReview. ``extra`` is sorted by key."""

    user: str
    verb: str
    uid: str
    groups: tuple[str, ...]
    extra: tuple[tuple[str, tuple[str, ...]], ...]
    group: str
    resource: str
    subresource: str = ""
    name: str = ""


def build_access_review(question: AccessQuestion) -> JSONObject:
    """Build the SubjectAccessReview for a question (authorization.k8s.io/v1)."""
    spec: JSONObject = {
        "user": question.user,
        "uid": question.uid,
        "groups": list(question.groups),
        "extra": {name: list(values) for name, values in question.extra},
        "resourceAttributes": {
            "verb": question.verb,
            "group": question.group,
            "version": "*",
            "resource": question.resource,
            "subresource": question.subresource,
            "name": question.name,
        },
    }
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def bearer_token(scope: Scope) -> str:
    """Return the bearer token of a request (RFC 6750 section 2.1), ``""`` if it has none, or more than one."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) != 1:
        return ""
    scheme, _, token = values[0].decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == _BEARER else ""


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
