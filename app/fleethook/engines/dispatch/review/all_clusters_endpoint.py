"""One registration for all logical clusters: ``/dispatch/mutate`` and ``/dispatch/validate``.

The annotation of the objects names the cluster, so the caller has to be an apiserver that stores them in this cluster.
Only callers that the setting ``dispatch_callers`` names by client certificate get answers.
"""

from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

import msgspec
from starlette.types import Scope

from fleethook.cluster.registration.paths import DISPATCH_MUTATE, DISPATCH_VALIDATE
from fleethook.engines.dispatch.attributes_and_cluster_annotation import find_annotated_cluster
from fleethook.engines.dispatch.dispatcher import DispatchResult
from fleethook.engines.dispatch.errors_and_deadline import Deadline, StatusError, refusal
from fleethook.engines.dispatch.review.access import describe_unnamed_caller
from fleethook.engines.dispatch.review.cluster_endpoint import DispatchContext, DispatchEndpoint, ReceivedReview
from fleethook.model.admission import AdmissionRequest
from fleethook.server.protocol.bodies import RequestError
from fleethook.server.reviews.admission_endpoint import ReviewRoute
from fleethook.server.reviews.http_checks import NamedCallers
from fleethook.server.reviews.review_codec import encode_response
from fleethook.work.threads_and_gc import Work


class AnnotatedEndpoint(DispatchEndpoint):
    """Asks the webhooks of one phase, for the logical cluster in the annotation of the objects."""

    def __init__(self, path: str, *, callers: NamedCallers, **rest: Any) -> None:
        """Prepare.

        Args:
            path: The path of the route.
            callers: The callers that are answered.
            rest: As in `DispatchEndpoint`.
        """
        super().__init__(path, cluster_exists=True, **rest)
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
            raise RequestError(403, "Forbidden", describe_unnamed_caller(scope))

    def _find_cluster(self, scope: Scope) -> str:
        del scope
        return ""

    def _authorize(self, scope: Scope, cluster: str, deadline: Deadline) -> Work[str]:
        del cluster, deadline
        yield from ()
        return self._callers.find(scope)

    def _decide(
        self, received: ReceivedReview, request: AdmissionRequest
    ) -> tuple[DispatchResult, bytes] | Coroutine[Any, Any, tuple[DispatchResult, bytes]]:
        try:
            cluster = find_annotated_cluster(request)
        except StatusError as error:
            response = refusal(error)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            response = self._fail(error, received)
        else:
            call = received.call._replace(cluster=cluster)
            return super()._decide(msgspec.structs.replace(received, call=call), request)
        review = received.review
        answer = encode_response(response, uid=review.uid, api_version=review.api_version)
        return DispatchResult(response, None), answer


def annotated_routes(context: DispatchContext, callers: NamedCallers) -> list[ReviewRoute]:
    """Return the routes that read the logical cluster from the objects.

    Args:
        context: The objects and services that they answer with.
        callers: The callers that are answered.
    """
    made = partial(AnnotatedEndpoint, context=context, callers=callers)
    mutate = "Ask the mutating webhooks of the cluster that owns the schema; the objects name their cluster"
    validate = "Ask the validating webhooks of the cluster that owns the schema; the objects name their cluster"
    return [
        ReviewRoute(DISPATCH_MUTATE, mutate, partial(made, phase="mutating")),
        ReviewRoute(DISPATCH_VALIDATE, validate, partial(made, phase="validating")),
    ]
