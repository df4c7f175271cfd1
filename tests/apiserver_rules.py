"""Requests that kube-apiserver 1.36 refuses, for the apiservers of tests, so that none accepts more than the real one.

`tests/conformance/fakes.yaml` lists these apiservers, their answers, and where upstream decides. Its requests are sent to
`tests.cluster.object_server.ObjectServer` and, in `tests/e2e/test_fakes.py`, to a real kube-apiserver.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fleethook.cluster.api_errors import APIError

MAX_ANNOTATIONS = 256 * 1024
_REVIEWS = {
    "tokenreviews": "TokenReview",
    "subjectaccessreviews": "SubjectAccessReview",
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "selfsubjectreviews": "SelfSubjectReview",
}
_PATH = re.compile(
    r"(?:/clusters/[^/]+)?/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?)?"
)


class ResourcePath(NamedTuple):
    """The parts of a request's path; ``""`` for those that it lacks."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str
    subresource: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The resource as errors name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def name_kind(self, body: Any) -> str:
        """Return the kind of an object as errors name it."""
        return f"{body['kind']}.{self.group}" if self.group else str(body["kind"])


def parse_path(path: str) -> ResourcePath:
    """Return the parts of a path; raises APIError if no resource has such a path."""
    if (parts := _PATH.fullmatch(path)) is None:
        raise unserved(path)
    return ResourcePath(*(value or "" for value in parts.groups()))


def unserved(path: str) -> APIError:
    """Return the error for a resource or version that is not served.

    The groups of kube-apiserver itself answer with a Status. All others are custom resources: their answer is a text.
    """
    parts = _PATH.fullmatch(path)
    group = (parts and parts["group"]) or ("" if path.startswith("/api/") else "-")
    if path.startswith(("/clusters/", "/services/")):
        group = "-"  # a kcp has no apps, and answers so for its own groups
    if group == "" or group.endswith(".k8s.io") or group in ("apps", "autoscaling", "batch", "policy"):
        return APIError(404, "NotFound", "the server could not find the requested resource")
    return APIError(404, "", "404 page not found")


def not_found(path: ResourcePath) -> APIError:
    return APIError(404, "NotFound", f'{path.resource} "{path.name}" not found')


def already_exists(path: ResourcePath, name: str) -> APIError:
    return APIError(409, "AlreadyExists", f'{path.resource} "{name}" already exists')


def conflict(path: ResourcePath) -> APIError:
    changed = "the object has been modified; please apply your changes to the latest version and try again"
    return APIError(409, "Conflict", f'Operation cannot be fulfilled on {path.resource} "{path.name}": {changed}')


def invalid(kind: str, name: str, field: str, text: str) -> APIError:
    return APIError(422, "Invalid", f'{kind} "{name}" is invalid: {field}: {text}', [(field, text)])


def check_review(path: str, body: Any) -> None:
    """Refuse a review as kube-apiserver does; raises APIError."""
    plural = path.rpartition("/")[2]
    if plural not in _REVIEWS:
        raise unserved(path)
    _check_kind(body, path.partition("/apis/")[2].rpartition("/")[0], _REVIEWS[plural])
    spec = body.get("spec") or {}
    if plural == "tokenreviews" and not spec.get("token"):
        raise APIError(400, "BadRequest", "token is required for TokenReview in authentication")
    problems = list(_find_access_problems(spec, plural, body)) if plural.endswith("accessreviews") else []
    if problems:
        # The real one lacks the kind, too.
        raise APIError(422, "Invalid", f'.authorization.k8s.io "" is invalid: {"; ".join(problems)}')


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
    about, namespace = body["involvedObject"].get("namespace") or "", parse_path(path).namespace
    if namespace != (about or "default"):
        text = f'Invalid value: "{about}": does not match event.namespace'
        raise invalid("Event", body["metadata"]["name"], "involvedObject.namespace", text)


def check_created(path: str, body: Any, kinds: Mapping[str, tuple[str, str]] | None = None) -> ResourcePath:
    """Return the path of a new object; raises APIError as kube-apiserver does.

    Args:
        path: The path of the request.
        body: The object.
        kinds: ``apiVersion`` and ``kind`` by plural. None accepts each kind whose plural is that of the path.
    """
    at = parse_path(path)
    if at.name or (kinds is not None and (not at.namespace or at.plural not in kinds)):
        raise unserved(path)
    if kinds is None:
        check_type(at, body)
    else:
        _check_kind(body, *kinds[at.plural])
    metadata = body.get("metadata") or {}
    if metadata.get("namespace", at.namespace) != at.namespace:
        text = "the namespace of the provided object does not match the namespace sent on the request"
        raise APIError(400, "BadRequest", text)
    if not metadata.get("name") and not metadata.get("generateName"):
        text = "Required value: name or generateName is required"
        raise invalid(at.name_kind(body), "", "metadata.name", text)
    if metadata.get("resourceVersion"):
        raise APIError(500, "", "resourceVersion should not be set on objects to be created")
    return at


def check_type(path: ResourcePath, body: Any) -> None:
    """Refuse an object without a type, or of another one than its path has; raises APIError."""
    if not isinstance(body, dict) or not body.get("kind") or not body.get("apiVersion"):
        raise APIError(400, "BadRequest", "invalid object type: /, Kind=")
    if body["apiVersion"] != path.api_version:
        data, expected = body["apiVersion"], path.api_version
        text = f"the API version in the data ({data}) does not match the expected API version ({expected})"
        raise APIError(400, "BadRequest", text)
    # Leases, NetworkPolicies, Ingresses.
    if not path.plural.startswith(body["kind"].lower()[:-1]):
        raise invalid(path.name_kind(body), path.name, "kind", f'Invalid value: "{body["kind"]}"')


def check_stored(path: ResourcePath, before: Any, after: Any) -> None:
    """Refuse a changed object as kube-apiserver does; raises APIError."""
    metadata = after["metadata"]
    if (name := metadata.get("name")) != path.name:
        text = f"the name of the object ({name}) does not match the name on the URL ({path.name})"
        raise APIError(400, "BadRequest", text)
    check_type(path, after)
    if metadata.get("resourceVersion") not in (None, "", before["metadata"]["resourceVersion"]):
        raise conflict(path)
    kind = path.name_kind(after)
    if metadata.get("uid") and metadata["uid"] != before["metadata"]["uid"]:
        raise invalid(kind, path.name, "metadata.uid", f'Invalid value: "{metadata["uid"]}": field is immutable')
    check_annotations(kind, metadata)
    known = before["metadata"].get("finalizers") or ()
    new = [one for one in metadata.get("finalizers") or () if one not in known]
    if new and before["metadata"].get("deletionTimestamp"):
        quoted = ", ".join(f'"{one}"' for one in new)
        text = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers"
        raise invalid(kind, path.name, "metadata.finalizers", f"{text} []string{{{quoted}}}")


def check_annotations(kind: str, metadata: Mapping[str, Any]) -> None:
    """Refuse annotations that are too long; raises APIError."""
    sizes = (len(f"{name}{value}".encode()) for name, value in (metadata.get("annotations") or {}).items())
    if sum(sizes) > MAX_ANNOTATIONS:
        text = f"Too long: may not be more than {MAX_ANNOTATIONS} bytes"
        raise invalid(kind, metadata["name"], "metadata.annotations", text)


def _check_kind(body: Any, api_version: str, kind: str) -> None:
    if not isinstance(body, dict) or (body.get("apiVersion"), body.get("kind")) != (api_version, kind):
        raise APIError(400, "BadRequest", f"the object provided is unrecognized: it is no {api_version} {kind}: {body}")
