"""The table of built-in resources and the equivalents of an apiserver, against a running one."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from schemas.api_schemas import BUILT_IN, read_built_in
from schemas.builtins import TABLE, discover, table, text_of
from tests.e2e.cluster import Api
from tests.e2e.conftest import CRDS, is_established
from tests.waiting import wait_for

GROUP = "equivalents.example.org"


def of_custom_resources(admin: Api) -> set[str]:
    return {definition["spec"]["group"] for definition in admin[CRDS]["items"]}


def restrict(entries: list[dict[str, Any]], served: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries without the versions and subresources that a server does not serve."""
    there = {
        (entry["resource"], version, subresource)
        for entry in served
        for version, kinds in entry["served"].items()
        for subresource in kinds
    }
    left = []
    for entry in entries:
        versions = {
            version: {one: kind for one, kind in kinds.items() if (entry["resource"], version, one) in there}
            for version, kinds in entry["served"].items()
        }
        versions = {version: kinds for version, kinds in versions.items() if kinds}
        if versions:
            left.append({**entry, "served": versions})
    return left


def test_the_table_equals_the_discovery_of_an_apiserver(admin: Api) -> None:
    running = table(discover(admin.__getitem__, without=of_custom_resources(admin)))
    assert {"pods", "deployments", "events", "customresourcedefinitions"} <= {entry["resource"] for entry in running}
    # The order of the dictionaries counts, too: it is the order of registration.
    assert text_of(restrict(json.loads(TABLE.read_text()), running)) == text_of(running)


def test_the_schemas_equal_those_that_an_apiserver_publishes(admin: Api) -> None:
    written = json.loads(BUILT_IN.read_text())
    running = read_built_in(admin.__getitem__, {}, release=written["release"], oldest=written["release"])
    groups = of_custom_resources(admin)
    kinds = {version: named for version, named in running["kinds"].items() if version.partition("/")[0] not in groups}
    assert {"v1", "apps/v1", "admissionregistration.k8s.io/v1"} <= kinds.keys()
    assert kinds == {version: {kind: written["kinds"][version][kind] for kind in kinds[version]} for version in kinds}
    shared = running["definitions"].keys() & written["definitions"].keys()
    assert {name: running["definitions"][name] for name in shared} == {
        name: written["definitions"][name] for name in shared
    }
    assert {name for named in kinds.values() for name in named.values()} <= shared


def test_no_two_storages_of_an_apiserver_have_resources_of_one_name(admin: Api) -> None:
    # An apiserver identifies a storage by name (apiserver/pkg/server/storage: ResourcePrefix), the table by its hash.
    names = [entry["resource"] for entry in table(discover(admin.__getitem__, without=of_custom_resources(admin)))]
    assert sorted(set(names)) == names


@pytest.fixture
def gadgets(admin: Api) -> Iterator[str]:
    """A custom resource with a served version and one that is not served; yields the path of its objects."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    name = f"gadgets.{GROUP}"
    admin.apply(
        f"{CRDS}/{name}",
        {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
            "spec": {
                "group": GROUP, "scope": "Cluster",
                "names": {"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget"},
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": schema},
                    {"name": "v0", "served": False, "storage": False, "schema": schema},
                ],
            },
        },
    )  # fmt: skip
    wait_for(lambda: is_established(admin, name), what=f"{name} is established")
    path = f"/apis/{GROUP}/v1/gadgets"
    wait_for(lambda: admin.call("GET", path)[0] == 200, what="it is served")
    yield path
    admin.delete(f"{CRDS}/{name}")


def test_versions_that_are_not_served_are_equivalents_to_an_apiserver(admin: Api, gadgets: str) -> None:
    with socket.socket() as nobody:
        # Bound and not listening: every call is refused, and the refusal shows that the webhook was called.
        nobody.bind(("127.0.0.1", 0))
        configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "unserved"},
            "webhooks": [
                {
                    "name": "unserved.example.org", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                    "clientConfig": {"url": f"https://127.0.0.1:{nobody.getsockname()[1]}/"},
                    "rules": [{"operations": ["CREATE"], "apiGroups": [GROUP], "apiVersions": ["v0"], "resources": ["gadgets"]}],
                }
            ],
        }  # fmt: skip
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        admin.create(path, configuration)
        gadget = {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": "a"}}
        try:
            wait_for(
                lambda: 'failed calling webhook "unserved.example.org"' in str(admin.call("POST", gadgets, gadget, dryRun="All")[1]),
                what="the webhook for the version that is not served is called",
            )  # fmt: skip
        finally:
            admin.delete(f"{path}/unserved")
