"""The review routes of logical clusters and of webhook configurations."""

from functools import partial

from fleethook.cluster.registration.paths import (
    CLUSTER_EXPLAIN,
    CLUSTER_MUTATE,
    CLUSTER_VALIDATE,
    OBSERVE,
    VALIDATE_MUTATING,
    VALIDATE_VALIDATING,
)
from fleethook.engines.dispatch.explain import Explanation
from fleethook.engines.dispatch.review.dispatch_endpoint import DispatchContext, DispatchEndpoint, ExplainEndpoint
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.server.reviews.admission_endpoint import Make, ReviewHandler, ReviewRoute, make_admission_route


def dispatch_routes(context: DispatchContext, validate: ReviewHandler) -> list[ReviewRoute]:
    """Return the routes of dispatching.

    Args:
        context: The objects and services that it answers with.
        validate: Answers reviews of webhook configurations.
    """
    mutate = "Ask the mutating webhooks of the cluster that owns the schema, and return their changes as one patch"
    ask = "Ask the validating webhooks of the cluster that owns the schema"
    explained = "Explain for each webhook whether it would be asked, and if not, why"
    validation = "Validate a webhook configuration, and warn about settings without effect"
    return [
        _make_cluster_route(CLUSTER_MUTATE, mutate, partial(DispatchEndpoint, context=context, phase="mutating")),
        _make_cluster_route(CLUSTER_VALIDATE, ask, partial(DispatchEndpoint, context=context, phase="validating")),
        _make_cluster_route(CLUSTER_EXPLAIN, explained, partial(ExplainEndpoint, context=context))._replace(
            answer=Explanation
        ),
        make_admission_route(OBSERVE, "Admit every review, so that the server records it", _observe, pure=True),
        make_admission_route(VALIDATE_MUTATING, validation, validate),
        make_admission_route(VALIDATE_VALIDATING, validation, validate),
    ]


def _observe(request: AdmissionRequest) -> Response:
    """Admit any review: another control plane decides it, and this server only records it."""
    del request
    return admission.allowed()


def _make_cluster_route(path: str, summary: str, make: Make) -> ReviewRoute:
    return ReviewRoute(path, summary, make, authorizes=True)
