"""Which path answers which review."""

from functools import partial
from typing import NamedTuple

from app.api.edge import Prepare, ReviewHandler
from app.model.admission import AdmissionRequest, Response
from app.overrider.freshness import LiveSource, freshen_overrider, freshen_workload
from app.overrider.plans import PlanCache
from app.overrider.render import mutate_workload
from app.overrider.review import default_overrider, validate_overrider
from app.registration.paths import MUTATE_DEPLOYMENT, MUTATE_OVERRIDER, MUTATE_STATEFULSET, VALIDATE_OVERRIDER
from app.store import StoreView


class ReviewRoute(NamedTuple):
    """A review route, as it is served and as OpenAPI shows it."""

    path: str
    handler: ReviewHandler
    summary: str
    prepare: Prepare | None = None


def review_routes(store: StoreView, plans: PlanCache, live: LiveSource | None) -> list[ReviewRoute]:
    """Return every route that takes an AdmissionReview.

    Args:
        store: The objects.
        plans: What was compiled from them.
        live: The source of the objects, if they can be read past the store.
    """

    def render(request: AdmissionRequest) -> Response:
        return mutate_workload(request, store=store, plans=plans)

    def validate(request: AdmissionRequest) -> Response:
        return validate_overrider(request, store=store)

    freshen_workloads = freshen_overriders = None
    if live is not None:
        freshen_workloads = partial(freshen_workload, store=store, live=live)
        freshen_overriders = partial(freshen_overrider, live=live)
    return [
        ReviewRoute(MUTATE_DEPLOYMENT, render, "Render a Deployment for its node pool", freshen_workloads),
        ReviewRoute(MUTATE_STATEFULSET, render, "Render a StatefulSet for its node pool", freshen_workloads),
        ReviewRoute(MUTATE_OVERRIDER, default_overrider, "Set the defaults of a YurtAppOverrider"),
        ReviewRoute(
            VALIDATE_OVERRIDER,
            validate,
            "Validate a YurtAppOverrider and rehearse it for every pool",
            freshen_overriders,
        ),
    ]
