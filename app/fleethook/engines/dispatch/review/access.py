"""The right to have reviews of a logical cluster dispatched or explained.

Three kinds of callers have it. A client certificate that a setting names gives it for every cluster. A bearer token
gives it for the clusters that the apiserver permits its user. On a loopback address, every client has it if `is_open`.
"""

import logging
from typing import Final, NamedTuple

from starlette.types import Scope

from fleethook.engines.dispatch.dispatch_settings import DispatchSettings
from fleethook.engines.dispatch.review.tokens import (
    ACCESS_GROUP,
    ACCESS_RESOURCE,
    ACCESS_VERB,
    BusyError,
    Tokens,
    UndecidedError,
)
from fleethook.server.callers import NamedCallers
from fleethook.server.protocol.body_limit import RequestError
from fleethook.work.immediate_steps import Steps

_log: Final = logging.getLogger(__name__)

_BEARER: Final = "bearer"


class Grant(NamedTuple):
    """The permission of a caller."""

    caller: str
    """The name of its certificate, or the user of its token; ``""`` if callers need no credentials."""


class ClusterAccess:
    """Decides whether a caller may ask a route about a logical cluster."""

    def __init__(self, *, is_open: bool = False, callers: NamedCallers, tokens: Tokens | None, lack: str) -> None:
        """Prepare.

        Args:
            is_open: Whether callers without credentials may ask.
            callers: The callers that may ask about every cluster.
            tokens: Decides about bearer tokens; None without an apiserver.
            lack: The message for a caller without credentials; it names the credentials that are needed.
        """
        self._is_open: Final = is_open
        self._callers: Final = callers
        self._tokens: Final = tokens
        self._lack: Final = lack

    def check_credentials(self, scope: Scope) -> None:
        """Refuse a caller without credentials, before its body is read.

        Raises:
            RequestError: The caller has none (401).
        """
        if self._is_open or self._callers.find(scope) or (self._tokens is not None and bearer_token(scope)):
            return
        raise RequestError(401, "Unauthorized", self._lack)

    def is_authorized(self, scope: Scope, *, cluster: str, route: str) -> bool:
        """Return whether `authorize` permits a request without asking the apiserver; arguments as in `authorize`."""
        if self._is_open or self._callers.find(scope):
            return True
        if self._tokens is None or not (token := bearer_token(scope)):
            return False
        decision = self._tokens.find(token, cluster=cluster, route=route)
        return decision is not None and decision.allowed

    def authorize(self, scope: Scope, *, cluster: str, route: str, seconds: float) -> Steps[Grant]:
        """Return the permission of a caller to ask a route about a cluster; waits only for the apiserver.

        Args:
            scope: The request.
            cluster: The logical cluster, by its name.
            route: ``mutate``, ``validate`` or ``explain``.
            seconds: The longest wait for the apiserver.

        Raises:
            RequestError: The caller has none (401, 403), or the apiserver cannot be asked now (429, 503).
        """
        if name := self._callers.find(scope):
            return Grant(name)
        if self._is_open:
            return Grant("")
        token = bearer_token(scope)
        if self._tokens is None or not token:
            raise RequestError(401, "Unauthorized", self._lack)
        client = (scope.get("client") or ("",))[0]
        try:
            decision = self._tokens.find(token, cluster=cluster, route=route)
            if decision is None:
                decision = yield self._tokens.decide(
                    token, cluster=cluster, route=route, client=client, seconds=seconds
                )
        except UndecidedError as error:
            raise RequestError(503, "ServiceUnavailable", str(error)) from None
        except BusyError:
            text = "too many callers wait for the apiserver to review their tokens; try again later"
            raise RequestError(429, "TooManyRequests", text) from None
        if decision.allowed:
            return Grant(decision.user)
        if not decision.user:
            raise RequestError(401, "Unauthorized", "the apiserver does not accept the bearer token")
        text = (
            f"user {decision.user!r} may not {route} in logical cluster {cluster!r}: this needs the verb "
            f"{ACCESS_VERB} on {ACCESS_RESOURCE}/{route} of {ACCESS_GROUP} with the name {cluster!r}"
        )
        raise RequestError(403, "Forbidden", text)


def bearer_token(scope: Scope) -> str:
    """Return the bearer token of a request (RFC 6750 section 2.1), ``""`` if it has none, or more than one."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) != 1:
        return ""
    scheme, _, token = values[0].decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == _BEARER else ""


def is_open(settings: DispatchSettings) -> bool:
    """Return whether callers without credentials may have reviews dispatched and explained."""
    if settings.client_ca_file is not None or not settings.listens_on_loopback:
        return False
    return settings.dispatch_open == "loopback" or (
        settings.dispatch_open == "manifests" and not settings.follows_cluster
    )


def log_access(settings: DispatchSettings) -> None:
    """Log at start if callers need no credentials, or if no credentials are accepted."""
    fields = {"host": settings.host, "dispatch_open": settings.dispatch_open}
    if is_open(settings):
        _log.warning(
            "reviews of logical clusters are dispatched and explained to callers without credentials, because this "
            "server listens on a loopback address; set dispatch_open: never to require credentials",
            extra={"fields": fields},
        )
    elif not settings.follows_cluster and not settings.dispatch_callers:
        _log.warning(needed_credentials(settings), extra={"fields": fields})


def needed_credentials(settings: DispatchSettings) -> str:
    """Return the message for a caller without credentials."""
    text = "reviews of logical clusters are dispatched and explained to callers with credentials only: "
    certificate = "a client certificate that the setting dispatch_callers names"
    if settings.follows_cluster:
        needed = f"a bearer token that the apiserver accepts, or {certificate}"
        return text + (needed if settings.dispatch_callers else f"{needed} (it names none now)")
    if settings.dispatch_callers:
        return text + certificate
    where = f"listens on {settings.host}"
    if settings.listens_on_loopback:
        where += f", with dispatch_open: {settings.dispatch_open}"
        where += "" if settings.client_ca_file is None else " and client_ca_file"
    return (
        f"{text}this server follows no apiserver that could review a bearer token, names no caller, and {where}. Set "
        "client_ca_file and dispatch_callers, follow an apiserver (--kubeconfig, --in-cluster), or listen on a "
        "loopback address"
    )
