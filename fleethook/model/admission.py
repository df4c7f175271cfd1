"""``AdmissionReview`` of ``admission.k8s.io`` and its parts."""

from app.model.admission import (
    AdmissionRequest,
    AdmissionResponse,
    AdmissionReview,
    Kind,
    Resource,
    Status,
    StatusCause,
    StatusDetails,
)

__all__ = [
    "AdmissionRequest",
    "AdmissionResponse",
    "AdmissionReview",
    "Kind",
    "Resource",
    "Status",
    "StatusCause",
    "StatusDetails",
]
