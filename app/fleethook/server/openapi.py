"""The OpenAPI document: its title, and the review routes, described by the types that decode reviews."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fleethook.model.admission import AdmissionReview, Status
from fleethook.model.karmada import InterpretReview
from fleethook.model.kcp import CLUSTER_PATTERN
from fleethook.server.reviews.admission_endpoint import ReviewRoute

TITLE: Final = "fleethook"
SUMMARY: Final = "Admission and review webhooks for a fleet of Kubernetes clusters"
_TEMPLATE: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_PATH_PARAMETERS: Final = {
    "cluster": {
        "description": "Name or path of a logical cluster, such as root:org:ws",
        "schema": {"type": "string", "pattern": f"^{CLUSTER_PATTERN}$"},
    },
    "rule": {
        "description": "validate/NAME or mutate/NAME of an admission rule that the server does not have",
        "schema": {"type": "string"},
    },
}
_EXPLAIN: Final = {
    "name": "explain",
    "in": "query",
    "description": "List the layers that were asked, unless 0 or false",
    "schema": {"type": "string"},
}
_SAME: Final = "The same review with its response; allowed or not"
_OTHER: Final = "The answer, or the same review with a response that explains why it cannot be read"
_TIMEOUT: Final = {
    "name": "timeout",
    "in": "query",
    "description": "Time that the caller waits, such as 10s; at most 34s",
    "schema": {"type": "string"},
}


def describe_reviews(document: dict[str, Any], routes: Sequence[ReviewRoute]) -> dict[str, Any]:
    """Add the review routes and their types to ``document`` and return it; a second call changes nothing."""
    types = tuple(dict.fromkeys(kind for route in routes for kind in (route.review, _answer_of(route))))
    (status, *described), components = msgspec.json.schema_components((Status, *types), ref_template=_TEMPLATE)
    by_type = dict(zip(types, described, strict=True))
    document.setdefault("components", {}).setdefault("schemas", {}).update(components)
    paths = document.setdefault("paths", {})
    for operations in paths.values():
        for operation in operations.values():
            _describe_bad_request(operation["responses"], status)
    for route in routes:
        operation = _operation(route, by_type[route.review], by_type[_answer_of(route)], status)
        paths[route.path] = {"post": operation}
    return document


def _answer_of(route: ReviewRoute) -> type[Any]:
    return route.answer or route.review


def _describe_bad_request(responses: dict[str, Any], status: dict[str, Any]) -> None:
    """Correct the status of bad parameters: FastAPI describes 422 with its own type, the application answers 400."""
    if responses.pop("422", None) is not None:
        responses["400"] = _json("A parameter has a wrong value", status)


def _json(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _operation(
    route: ReviewRoute, review: dict[str, Any], answer: dict[str, Any], status: dict[str, Any]
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "tags": ["reviews"],
        "summary": route.summary,
        "operationId": route.path.strip("/"),
        "requestBody": {"required": True, "content": {"application/json": {"schema": review}}},
        "responses": {
            "200": _json(_SAME, answer) if route.answer is None else _json(_OTHER, {"anyOf": [answer, review]}),
            **{code: _json(text, status) for code, text in _refusals(route).items()},
        },
    }
    if parameters := _parameters(route):
        operation["parameters"] = parameters
    return operation


def _parameters(route: ReviewRoute) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, **_PATH_PARAMETERS[name]}
        for name in _PARAMETER.findall(route.path)
    ]
    if route.review is InterpretReview:
        found.append(_EXPLAIN)
    if route.authorizes:
        found.append(_TIMEOUT)
    return found


def _refusals(route: ReviewRoute) -> dict[str, str]:
    """Return the reasons for which a route answers with a Status, by HTTP status."""
    refusals = {
        "400": "No usable review in the body",
        "403": "The caller needs a client certificate, or lacks the right to ask",
        "405": "Not a POST",
        "413": "The body is larger than the limit",
        "415": "Not application/json",
        "503": "The server has not read the objects yet, or too many requests and connections are open (Retry-After)",
    }
    if route.review is AdmissionReview:
        refusals["404"] = "The route is off, or the path names no logical cluster"
    if route.authorizes:
        refusals["401"] = "No credentials, or a bearer token that the apiserver does not accept"
        refusals["429"] = "Too many callers wait for the apiserver to review their tokens"
    return dict(sorted(refusals.items()))
