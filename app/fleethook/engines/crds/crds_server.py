"""The engine for CRD tarballs in a running server: the reviews of Karmada instances."""

from fleethook.cluster.registration.paths import MUTATE_KARMADA, VALIDATE_KARMADA
from fleethook.engines.crds.instance.instance_validation import aggregate_problems, find_problems, find_warnings
from fleethook.engines.crds.instance.karmada_instance import build_default_patch
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response, StatusCause, not_for_review
from fleethook.model.crd_tarball import KARMADA
from fleethook.model.formats.field_errors import first_problems
from fleethook.model.json import as_object
from fleethook.server.engine_server import EngineServer
from fleethook.server.reviews.admission_endpoint import ReviewRoute, make_admission_route


def mutate_karmada(request: AdmissionRequest) -> Response:
    """Answer a review with a patch that adds the missing defaults."""
    answer = not_for_review(request, (KARMADA,))
    if answer is not None:
        return answer
    operations = build_default_patch(request.object)
    return admission.patched(operations) if operations else admission.allowed()


def validate_karmada(request: AdmissionRequest) -> Response:
    """Answer a review with all problems and warnings of ``spec.crdTarball``.

    Updates that do not change spec (for example the operator adding a finalizer) are admitted without warnings.
    Warnings are repeated at the next spec change.
    """
    answer = not_for_review(request, (KARMADA,))
    if answer is not None:
        return answer
    old = dict(as_object(request.old_object)) if request.operation == "UPDATE" else None
    if old is not None and old.get("spec") == request.object.get("spec"):
        return admission.allowed()
    warnings = tuple(find_warnings(request.object))
    found = first_problems(find_problems(request.object, old=old))
    if not found:
        return admission.allowed(warnings=warnings)
    causes = [StatusCause(field, text, "FieldValueInvalid") for field, text in found]
    return admission.invalid(aggregate_problems(found), causes, warnings=warnings)


class CrdsServer(EngineServer):
    """Answers reviews of instances of Karmada."""

    def routes(self) -> list[ReviewRoute]:
        """Return the routes of instances of Karmada."""
        crds = "the CRD tarball of a Karmada"
        return [
            make_admission_route(MUTATE_KARMADA, f"Set the defaults of {crds}", mutate_karmada, pure=True),
            make_admission_route(VALIDATE_KARMADA, f"Validate {crds}", validate_karmada, pure=True),
        ]
