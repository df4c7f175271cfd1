"""Which path answers which review."""

from collections.abc import Callable
from typing import Final, NamedTuple

from app.api.edge import ReviewHandler
from app.model.admission import AdmissionRequest, Response
from app.overrider.plans import PlanCache
from app.overrider.render import mutate_workload
from app.overrider.review import default_overrider, validate_overrider
from app.store import StoreView

# controller-runtime's habit, so that existing tooling reads them: /mutate-<group>-<version>-<kind>.
MUTATE_DEPLOYMENT: Final = "/mutate-apps-v1-deployment"
MUTATE_STATEFULSET: Final = "/mutate-apps-v1-statefulset"
MUTATE_OVERRIDER: Final = "/mutate-apps-openyurt-io-v1alpha1-yurtappoverrider"
VALIDATE_OVERRIDER: Final = "/validate-apps-openyurt-io-v1alpha1-yurtappoverrider"


class ReviewRoute(NamedTuple):
    """A review route, as it is served and as OpenAPI shows it."""

    path: str
    handler: ReviewHandler
    summary: str


def review_routes(store: StoreView, plans: PlanCache) -> list[ReviewRoute]:
    """Return every route that takes an AdmissionReview."""

    def render(request: AdmissionRequest) -> Response:
        return mutate_workload(request, store=store, plans=plans)

    def validate(request: AdmissionRequest) -> Response:
        return validate_overrider(request, store=store)

    rows: list[tuple[str, Callable[[AdmissionRequest], Response], str]] = [
        (MUTATE_DEPLOYMENT, render, "Render a Deployment for its node pool"),
        (MUTATE_STATEFULSET, render, "Render a StatefulSet for its node pool"),
        (MUTATE_OVERRIDER, default_overrider, "Set the defaults of a YurtAppOverrider"),
        (VALIDATE_OVERRIDER, validate, "Validate a YurtAppOverrider and rehearse it for every pool"),
    ]
    return [ReviewRoute(*row) for row in rows]
