"""Requests that kube-apiserver 1.36 refuses, for the apiservers of tests, so that none accepts more than the real one.

`tests/conformance/fakes.yaml` lists these apiservers, their answers, and where upstream decides.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from app.kube.errors import APIError

_REVIEWS = {
    "tokenreviews": "TokenReview",
    "subjectaccessreviews": "SubjectAccessReview",
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "selfsubjectreviews": "SelfSubjectReview",
}
_NAMESPACED = re.compile(
    r"(?:/clusters/[^/]+)?/(?:api|apis/[^/]+)/[^/]+/namespaces/(?P<namespace>[^/]+)/(?P<plural>[^/]+)"
)


def check_review(path: str, body: Any) -> None:
    """Refuse a review as kube-apiserver does; raises APIError."""
    plural = path.rpartition("/")[2]
    if plural not in _REVIEWS:
        raise APIError(404, "", "404 page not found")
    _check_kind(body, path.partition("/apis/")[2].rpartition("/")[0], _REVIEWS[plural])
    spec = body.get("spec") or {}
    if plural == "tokenreviews" and not spec.get("token"):
        raise APIError(400, "BadRequest", "token is required for TokenReview in authentication")
    problems = list(_find_access_problems(spec, plural, body)) if plural.endswith("accessreviews") else []
    if problems:
        raise APIError(422, "Invalid", f'{_REVIEWS[plural]}.authorization.k8s.io "" is invalid: {"; ".join(problems)}')


def _find_access_problems(spec: Mapping[str, Any], plural: str, body: Mapping[str, Any]) -> Iterator[str]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        yield "spec: exactly one of nonResourceAttributes or resourceAttributes must be specified"
    if plural == "subjectaccessreviews" and not spec.get("user") and not spec.get("groups"):
        yield "spec.user: at least one of user or group must be specified"
    for member in ("fieldSelector", "labelSelector"):
        selector = (resource or {}).get(member)
        if selector is not None and bool(selector.get("rawSelector")) == bool(selector.get("requirements")):
            yield f"spec.resourceAttributes.{member}: requirements or rawSelector is required"
    if body.get("metadata"):
        yield "metadata: must be empty"


def check_event(path: str, body: Any) -> None:
    """Refuse a new Event of the core group as kube-apiserver does; raises APIError."""
    check_created(path, body, {"events": ("v1", "Event")})
    about, namespace = body["involvedObject"].get("namespace") or "", body["metadata"]["namespace"]
    if namespace != (about or "default"):
        raise APIError(422, "Invalid", "involvedObject.namespace: Invalid value: does not match event.namespace")


def check_created(path: str, body: Any, kinds: Mapping[str, tuple[str, str]]) -> None:
    """Refuse a new object as kube-apiserver does; raises APIError.

    Args:
        path: The path of the request.
        body: The object.
        kinds: ``apiVersion`` and ``kind`` by plural.
    """
    parts = _NAMESPACED.fullmatch(path)
    if parts is None or parts["plural"] not in kinds:
        raise APIError(404, "", "404 page not found")
    _check_kind(body, *kinds[parts["plural"]])
    metadata = body.get("metadata") or {}
    if metadata.get("namespace", parts["namespace"]) != parts["namespace"]:
        text = "the namespace of the provided object does not match the namespace sent on the request"
        raise APIError(400, "BadRequest", text)
    if not metadata.get("name") and not metadata.get("generateName"):
        raise APIError(422, "Invalid", "metadata.name: Required value: name or generateName is required")


def _check_kind(body: Any, api_version: str, kind: str) -> None:
    if not isinstance(body, dict) or (body.get("apiVersion"), body.get("kind")) != (api_version, kind):
        raise APIError(400, "BadRequest", f"the object provided is unrecognized: it is no {api_version} {kind}: {body}")
