"""The log lines about answered reviews, member by member."""

from typing import Final

import msgspec

from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.json import JSON, as_object
from fleethook.model.kcp import cluster_of
from fleethook.server.logs.logs import ReviewLine, cut_text, milliseconds, stamp
from fleethook.server.reviews.codec import Decoded

# A member of a log line that is left out.
_UNSET: Final[str | msgspec.UnsetType] = msgspec.UNSET


def _find_document(request: AdmissionRequest) -> JSON:
    """Return the object under review, as far as the handler decoded it: a log line must not cost another decode."""
    decoded: dict[str, JSON] = request.__dict__
    document = decoded.get("desired_object") or decoded.get("object") or decoded.get("outline")
    if document or request.operation != "DELETE":
        return document
    return decoded.get("old_object") or decoded.get("old_outline")


def find_cluster(request: AdmissionRequest | None) -> str:
    """Return the logical cluster in the annotation of the object under review, ``""`` if it names none."""
    document = None if request is None else _find_document(request)
    return cluster_of(document) if isinstance(document, dict) else ""


def make_admission_line(
    path: str, review: Decoded, response: Response, *, seconds: float, request_id: str
) -> ReviewLine:
    """Return the line about an answered admission review."""
    cluster = gvk = namespace = name = operation = _UNSET
    if (request := review.request) is not None:
        kind = request.kind
        document = _find_document(request)
        cluster = cut_text(cluster_of(document)) if isinstance(document, dict) else ""
        gvk = cut_text(f"{kind.group}/{kind.version}/{kind.kind}")
        namespace = cut_text(request.namespace)
        generated = request.name or as_object(as_object(document).get("metadata")).get("generateName", "")
        name = cut_text(generated) if isinstance(generated, str) else ""
        operation = request.operation
    message = cut_text(response.message) if response.message else _UNSET
    # By position: members that are set one by one take a quarter more time.
    return ReviewLine(
        stamp(), "info", "review", path, cut_text(request_id), cut_text(review.uid), response.allowed,
        len(response.patch), milliseconds(seconds), cluster, gvk, namespace, name, operation, message,
    )  # fmt: skip
