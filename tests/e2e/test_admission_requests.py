"""The reviews that kube-apiserver sends are those of tests/conformance/admission_requests.yaml."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.admission_requests import describe_review, load
from tests.e2e.cluster import CRDS, Api, ControlPlane, is_established
from tests.e2e.foreign_webhook import recording_webhook
from tests.waiting import wait_for


@pytest.fixture
def cases(admin: Api, namespace: str) -> Iterator[dict[str, Any]]:
    """The cases for a new namespace, whose objects exist."""
    found = load(namespace)
    name = found["definition"]["metadata"]["name"]
    admin.apply(f"{CRDS}/{name}", found["definition"])
    wait_for(lambda: is_established(admin, name), what=f"{name} is established")
    for path, document in found["objects"]:
        wait_for(
            lambda path=path, document=document: admin.call("POST", path, document)[0] in (201, 409),
            what=f"{document['kind']} is created",
        )
    yield found
    for path, document in reversed(found["objects"]):
        admin.call("DELETE", f"{path}/{document['metadata']['name']}", gracePeriodSeconds="0")
    admin.delete(f"{CRDS}/{name}")


def test_an_apiserver_sends_the_expected_reviews(
    plane: ControlPlane, cases: dict[str, Any], namespace: str, tmp_path: Path
) -> None:
    user = plane.api(plane.authority.issue(f"recorded-{namespace}", "system:masters"))
    different = []
    with (
        recording_webhook(plane.api(), tmp_path, f"recorded-{namespace}", phase="Mutating") as mutating,
        recording_webhook(plane.api(), tmp_path, f"recorded-{namespace}") as seen,
    ):
        probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}}

        def is_recorded() -> bool:
            user.call("POST", f"/api/v1/namespaces/{namespace}/configmaps", probe, dryRun="All")
            return bool(seen and mutating)

        wait_for(is_recorded, what="the webhook is called")
        for case in cases["requests"]:
            seen.clear()
            mutating.clear()
            method, _, target = case["request"].partition(" ")
            path, _, query = target.partition("?")
            parameters = dict(one.split("=") for one in query.split("&") if one)
            content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
            # Proxies refuse the parameter. GET and CONNECT write nothing.
            if method != "GET" and "CONNECT" not in (case["reviewed"] or ()):
                parameters["dryRun"] = "All"
            answer = user.call(method, path, case.get("body"), content_type=content_type, **parameters)
            reviewed = [describe_review(request) for request in (*mutating, *seen)]
            expected = (case.get("mutating", case["reviewed"]), case["reviewed"])
            if reviewed != [one for one in expected if one is not None]:
                different.append((case["request"], answer, reviewed))
    assert different == []
