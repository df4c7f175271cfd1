"""One registration for all logical clusters: ``/dispatch/mutate`` and ``/dispatch/validate``.

The cluster is read from the annotation of the objects, so the caller has to be an apiserver that stores them under the
right cluster. Only callers that the setting ``dispatch_callers`` names by client certificate are answered.
"""

from functools import partial
from typing import Any, Final

import msgspec
from starlette.types import Scope

from app.api.access import Grant
from app.api.body import RequestError
from app.api.callers import NamedCallers
from app.api.codec import encode_response
from app.api.dispatch import Asked, DispatchEndpoint, Standing, refusal
from app.api.edge import failed
from app.api.routes import ReviewRoute
from app.dispatch.call import Deadline
from app.dispatch.cluster_annotation import find_annotated_cluster
from app.dispatch.dispatcher import DispatchResult
from app.dispatch.errors import StatusError
from app.registration.paths import DISPATCH_MUTATE, DISPATCH_VALIDATE


class AnnotatedEndpoint(DispatchEndpoint):
    """Asks the webhooks of one phase, for the logical cluster that the objects are annotated with."""

    def __init__(self, path: str, *, callers: NamedCallers, **rest: Any) -> None:
        """Prepare.

        Args:
            path: Of the route.
            callers: The callers that are answered.
            rest: As `DispatchEndpoint` has it.
        """
        super().__init__(path, vouched=True, **rest)
        self._callers: Final = callers

    def _check_caller(self, scope: Scope) -> None:
        if not self._callers:
            raise RequestError(
                404,
                "NotFound",
                f"{self._path} is off: name the callers that may use it in the setting dispatch_callers, by their "
                "client certificates, and their authority in client_ca_file",
            )
        if not self._callers.find(scope):
            raise RequestError(403, "Forbidden", _stranger(scope))

    def _addressed(self, scope: Scope) -> str:
        del scope
        return ""

    async def _authorize(self, scope: Scope, cluster: str, deadline: Deadline) -> Grant:
        del cluster, deadline
        return Grant(self._callers.find(scope))

    async def _decide(self, asked: Asked) -> tuple[DispatchResult, bytes]:
        try:
            cluster = find_annotated_cluster(asked.request)
        except StatusError as error:
            response = refusal(error)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            response = failed(error, route=self._path, uid=asked.review.uid)
        else:
            return await super()._decide(asked._replace(cluster=cluster))
        answer = encode_response(response, uid=asked.review.uid, api_version=asked.review.api_version)
        return DispatchResult(response, None), answer


def _stranger(scope: Scope) -> str:
    """Return why a caller is refused; the message names the holder of its own certificate."""
    asked = "only callers that the setting dispatch_callers names may ask here"
    subject = (scope.get("extensions") or {}).get("tls", {}).get("client_cert_name")
    if subject is None:
        return f"{asked}: show a client certificate"
    return f"{asked}: the client certificate ({subject}) has none of these names"


def annotated_routes(standing: Standing, callers: NamedCallers) -> list[ReviewRoute]:
    """Return the routes that read the logical cluster from the objects.

    Args:
        standing: The objects and the dispatcher that they answer from.
        callers: The callers that are answered.
    """
    made = partial(AnnotatedEndpoint, standing=standing, callers=callers)
    mutate = "Ask the mutating webhooks of the cluster that owns the schema; the objects say where they are"
    validate = "Ask the validating webhooks of the cluster that owns the schema; the objects say where they are"
    return [
        ReviewRoute(DISPATCH_MUTATE, mutate, partial(made, phase="mutating")),
        ReviewRoute(DISPATCH_VALIDATE, validate, partial(made, phase="validating")),
    ]
