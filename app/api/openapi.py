"""Review routes in the OpenAPI document, from the same types that decode them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from app.api.routes import ReviewRoute
from app.model.admission import Status

_TEMPLATE = "#/components/schemas/{name}"


def describe_reviews(document: dict[str, Any], routes: Sequence[ReviewRoute]) -> dict[str, Any]:
    """Add the review routes and their types to ``document``, and return it; doing so twice changes nothing."""
    types = tuple(dict.fromkeys(route.review for route in routes))
    (status, *reviews), components = msgspec.json.schema_components((Status, *types), ref_template=_TEMPLATE)
    by_type = dict(zip(types, reviews, strict=True))
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(components)
    for route in routes:
        document.setdefault("paths", {})[route.path] = {"post": _operation(route, by_type[route.review], status)}
    return document


def _operation(route: ReviewRoute, review: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    def answer(text: str, schema: dict[str, Any]) -> dict[str, Any]:
        return {"description": text, "content": {"application/json": {"schema": schema}}}

    refusals = {}
    if route.authorizes:
        refusals = {
            "401": answer("No credentials, or a bearer token that the apiserver does not accept", status),
            "403": answer("The user of the bearer token may not ask this about the logical cluster", status),
            "429": answer("Too many callers wait for the apiserver to review their tokens", status),
            "503": answer("The apiserver did not review the token, or the objects are not read", status),
        }
    return {
        "tags": ["reviews"],
        "summary": route.summary,
        "operationId": route.path.strip("/"),
        "requestBody": {"required": True, "content": {"application/json": {"schema": review}}},
        "responses": {
            "200": answer("The same review with its response; allowed or not", review),
            "400": answer("No usable review in the body", status),
            "405": answer("Not a POST", status),
            "413": answer("The body is larger than the limit", status),
            "415": answer("Not application/json", status),
            **refusals,
        },
    }
