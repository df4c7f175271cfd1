"""Admission of YurtAppOverriders themselves: defaults and validation (seed 004, "Validating Webhook")."""

from collections.abc import Iterator, Sequence
from typing import Final

from app.control.slices import Sliced, run_at_once
from app.model import admission
from app.model.admission import AdmissionRequest, Response, StatusCause
from app.model.json import JSON, JSONObject, as_object
from app.model.kcp import cluster_of
from app.model.openyurt import API_VERSION, YURT_APP_OVERRIDER
from app.overrider.finding import Finding
from app.overrider.validation import check_overrider_in_slices
from app.store import StoreView

# A status answer is kept in events and printed by kubectl; nobody reads more findings than these.
_MAX_CAUSES: Final = 50


def default_overrider(request: AdmissionRequest) -> Response:
    """Give a subject without apiVersion the one that is meant: without it no owner reference ever equals it."""
    overrider = request.object
    if (refusal := _not_an_overrider(request, overrider)) is not None:
        return refusal
    subject = overrider.get("subject")
    if request.operation not in ("CREATE", "UPDATE") or not isinstance(subject, dict) or subject.get("apiVersion"):
        return admission.allowed()
    return admission.patched([{"op": "add", "path": "/subject/apiVersion", "value": API_VERSION}])


def _not_an_overrider(request: AdmissionRequest, overrider: JSON) -> Response | None:
    kind = request.kind.kind or as_object(overrider).get("kind")
    if kind != YURT_APP_OVERRIDER.kind:
        return admission.errored(f"expected a YurtAppOverrider but got a {kind or 'nothing'}")
    if request.operation != "DELETE" and not isinstance(as_object(overrider).get("metadata"), dict):
        return admission.errored("request.object is not an object with metadata")
    return None


def validate_overrider(request: AdmissionRequest, *, store: StoreView) -> Response:
    """Answer the review of a YurtAppOverrider as `validate_overrider_in_slices` does."""
    return run_at_once(validate_overrider_in_slices(request, store=store))


def validate_overrider_in_slices(request: AdmissionRequest, *, store: StoreView) -> Sliced[Response]:
    """Answer the review of a YurtAppOverrider with all findings, not the first one only.

    Deletion is always admitted: the workloads go back to their template. So is an update that changes neither subject
    nor entries, and any update of an object that is being deleted. The store is read in one slice only.
    """
    overrider = request.object
    if (refusal := _not_an_overrider(request, overrider)) is not None:
        return refusal
    # Decoding an overrider with an entry for each of 5,000 node pools is a slice of its own.
    yield
    if request.sub_resource or request.operation not in ("CREATE", "UPDATE") or _untouched(request, overrider):
        return admission.allowed()
    namespace = request.namespace or overrider["metadata"].get("namespace") or ""
    found = yield from check_overrider_in_slices(
        overrider, cluster=cluster_of(overrider), namespace=namespace, store=store
    )
    causes = [finding.cause() for finding in (*_immutable(request, overrider), *found) if finding.level == "error"]
    warnings = _shortened([finding.text for finding in found if finding.level == "warning"])
    if causes:
        return _refused(overrider, namespace, causes, warnings)
    return admission.allowed(warnings=warnings)


def _shortened(warnings: list[str]) -> list[str]:
    more = len(warnings) - _MAX_CAUSES
    return warnings if more <= 0 else [*warnings[:_MAX_CAUSES], f"and {more} more warnings"]


def _untouched(request: AdmissionRequest, overrider: JSONObject) -> bool:
    if request.operation != "UPDATE":
        return False
    old = as_object(request.old_object)
    same = all(old.get(member) == overrider.get(member) for member in ("subject", "entries"))
    named = _identity(old) == _identity(overrider)
    return bool(overrider["metadata"].get("deletionTimestamp")) or (same and named)


def _identity(overrider: JSON) -> tuple[JSON, JSON]:
    metadata = as_object(as_object(overrider).get("metadata"))
    return metadata.get("namespace"), metadata.get("name")


def _immutable(request: AdmissionRequest, overrider: JSONObject) -> Iterator[Finding]:
    if request.operation != "UPDATE":
        return
    old = as_object(request.old_object)
    name = _identity(old)[1]
    if _identity(old) != _identity(overrider):
        yield Finding("immutable", "metadata", f"unable to change metadata after {name} is created")
    if _bound_to(old) != _bound_to(overrider):
        message = f"unable to modify subject after {name} is created: delete it and create another one"
        yield Finding("immutable", "subject", message)


def _bound_to(overrider: JSON) -> tuple[JSON, JSON]:
    """Return kind and name of the subject; both versions of a YurtAppSet mean the same one."""
    subject = as_object(as_object(overrider).get("subject"))
    return subject.get("kind"), subject.get("name")


def _refused(overrider: JSONObject, namespace: str, causes: Sequence[StatusCause], warnings: Sequence[str]) -> Response:
    shown = causes[:_MAX_CAUSES]
    listed = "; ".join(f"{cause.field}: {cause.message}" for cause in shown)
    more = f"; and {len(causes) - len(shown)} more" if len(causes) > len(shown) else ""
    name = overrider["metadata"].get("name") or overrider["metadata"].get("generateName", "")
    return admission.invalid(
        f"YurtAppOverrider {namespace or 'default'}/{name} is invalid: {listed}{more}", shown, warnings=warnings
    )
