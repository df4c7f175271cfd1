"""The webhook layer on a real cluster: definitions and configurations are followed, a hook is this server's own."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from app.store.yaml_reader import read_documents
from tests.e2e.cluster import Api, ControlPlane, RefusedError
from tests.e2e.conftest import CRDS, established
from tests.e2e.fleet import registered
from tests.serving import EXAMPLES, Server
from tests.waiting import wait_for

EXAMPLE = EXAMPLES / "interpreter"
CONFIGURATIONS = "/apis/config.karmada.io/v1alpha1/resourceexploringwebhookconfigurations"
REVIEW = (EXAMPLE / "review.json").read_bytes()


def documents(name: str) -> list[Any]:
    return [one.object for one in read_documents((EXAMPLE / name).read_text(), source=name)]


@pytest.fixture(scope="module")
def server(plane: ControlPlane, crds: None, admin: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    for definition in documents("definitions.yaml"):
        admin.apply(f"{CRDS}/{definition['metadata']['name']}", definition)
        wait_for(lambda name=definition["metadata"]["name"]: established(admin, name))
    with registered(plane, tmp_path_factory.mktemp("interpreting")) as running:
        yield running


def asked(server: Server) -> Any:
    return json.loads(server.request("POST", "/explore?explain=1", REVIEW)[1])


def test_the_proposals_example_on_a_cluster(server: Server, admin: Api) -> None:
    (configuration,) = documents("configuration.yaml")
    bundle = base64.b64encode(server.authority.read_bytes()).decode()
    for webhook in configuration["webhooks"]:
        path = webhook["clientConfig"]["url"].rpartition("/")[2]
        webhook["clientConfig"] = {"url": f"https://127.0.0.1:{server.port}/{path}", "caBundle": bundle}
    assert asked(server)["response"]["code"] == 404

    with pytest.raises(RefusedError, match=r"must be between 1 and 30 seconds|should be less than or equal to 30"):
        admin.create(
            CONFIGURATIONS, {**configuration, "webhooks": [{**configuration["webhooks"][0], "timeoutSeconds": 60}]}
        )
    with pytest.raises(RefusedError, match="should be a domain with at least two segments"):
        admin.create(CONFIGURATIONS, {**configuration, "webhooks": [{**configuration["webhooks"][0], "name": "foo"}]})

    admin.create(CONFIGURATIONS, configuration)
    wait_for(lambda: asked(server)["response"]["successful"], what="the hook is asked")
    answer = asked(server)
    assert answer["explanation"] == [
        {"layer": "webhook", "hook": "example/foo.example.com", "outcome": "answered", "detail": ""}
    ]
    patch = json.loads(base64.b64decode(answer["response"]["patch"]))
    assert patch == [{"op": "replace", "path": "/spec/size", "value": 5}]

    admin.delete(f"{CONFIGURATIONS}/example")
    wait_for(lambda: not asked(server)["response"]["successful"], what="it is not asked any more")


def test_the_examples_objects_are_what_their_definitions_want(server: Server, admin: Api) -> None:
    for name, path in (
        ("foo", "foo.example.com/v1alpha1/namespaces/default/foos"),
        ("bar", "bar.example.com/v1alpha1/bars"),
    ):
        (document,) = documents(f"objects/{name}.yaml")
        wait_for(lambda path=path: admin.call("GET", f"/apis/{path}")[0] == 200)
        assert admin.create(f"/apis/{path}", document, dryRun="All")["spec"] == document["spec"]
