"""The engine for CRD tarballs in a running server: the reviews of Karmada instances."""

from fleethook.cluster.registration.paths import MUTATE_KARMADA, VALIDATE_KARMADA
from fleethook.engines.crds.instance.defaults_and_lifecycle import mutate_karmada
from fleethook.engines.crds.instance.source_validation import validate_karmada
from fleethook.server.engine_server import EngineServer
from fleethook.server.reviews.admission_endpoint import ReviewRoute, make_admission_route


class CrdsServer(EngineServer):
    """Answers reviews of instances of Karmada."""

    def routes(self) -> list[ReviewRoute]:
        """Return the routes of instances of Karmada."""
        crds = "the CRD tarball of a Karmada"
        return [
            make_admission_route(MUTATE_KARMADA, f"Set the defaults of {crds}", mutate_karmada, pure=True),
            make_admission_route(VALIDATE_KARMADA, f"Validate {crds}", validate_karmada, pure=True),
        ]
