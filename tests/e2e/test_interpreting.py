"""The webhook layer on a real cluster: definitions and configurations are followed, a hook is this server's own."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from fleethook.cluster.manifests.manifest_files import read_documents
from tests.e2e.cluster import CRDS, Api, ControlPlane, RefusedError, is_established
from tests.e2e.fleet import run_registered_server
from tests.e2e.karmada_crds import install_karmada_crds
from tests.serving import EXAMPLES, Server
from tests.waiting import wait_for

EXAMPLE = EXAMPLES / "interpreter"
CONFIGURATIONS = "/apis/config.karmada.io/v1alpha1/resourceexploringwebhookconfigurations"
REVIEW = (EXAMPLES / "testdata" / "review-interpreter.json").read_bytes()


def documents(name: str) -> list[Any]:
    return [one.object for one in read_documents((EXAMPLE / name).read_text(), source=name)]


@pytest.fixture(scope="module")
def server(plane: ControlPlane, crds: None, admin: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    for definition in documents("definitions.yaml"):
        admin.apply(f"{CRDS}/{definition['metadata']['name']}", definition)
        wait_for(lambda name=definition["metadata"]["name"]: is_established(admin, name))
    with run_registered_server(plane, tmp_path_factory.mktemp("interpreting")) as running:
        yield running


def send_review(server: Server) -> Any:
    return json.loads(server.request("POST", "/explore?explain=1", REVIEW)[1])


def test_the_proposals_example_on_a_cluster(server: Server, admin: Api) -> None:
    (configuration,) = documents("configuration.yaml")
    bundle = base64.b64encode(server.authority.read_bytes()).decode()
    for webhook in configuration["webhooks"]:
        path = webhook["clientConfig"]["url"].rpartition("/")[2]
        webhook["clientConfig"] = {"url": f"https://127.0.0.1:{server.port}/{path}", "caBundle": bundle}
    assert send_review(server)["response"]["code"] == 404

    with pytest.raises(RefusedError, match=r"must be between 1 and 30 seconds|should be less than or equal to 30"):
        admin.create(
            CONFIGURATIONS, {**configuration, "webhooks": [{**configuration["webhooks"][0], "timeoutSeconds": 60}]}
        )
    with pytest.raises(RefusedError, match="should be a domain with at least two segments"):
        admin.create(CONFIGURATIONS, {**configuration, "webhooks": [{**configuration["webhooks"][0], "name": "foo"}]})

    admin.create(CONFIGURATIONS, configuration)
    wait_for(lambda: send_review(server)["response"]["successful"], what="the hook is called")
    answer = send_review(server)
    assert answer["explanation"][1:] == [
        {"layer": "webhook", "hook": "example/foo.example.com", "outcome": "answered", "detail": ""}
    ]
    patch = json.loads(base64.b64decode(answer["response"]["patch"]))
    assert patch == [{"op": "replace", "path": "/spec/size", "value": 5}]

    admin.delete(f"{CONFIGURATIONS}/example")
    wait_for(lambda: not send_review(server)["response"]["successful"], what="it is no longer called")


def test_the_examples_objects_match_their_definitions(server: Server, admin: Api) -> None:
    for name, path in (
        ("foo", "foo.example.com/v1alpha1/namespaces/default/foos"),
        ("bar", "bar.example.com/v1alpha1/bars"),
    ):
        (document,) = documents(f"objects/{name}.yaml")
        wait_for(lambda path=path: admin.call("GET", f"/apis/{path}")[0] == 200)
        assert admin.create(f"/apis/{path}", document, dryRun="All")["spec"] == document["spec"]


KARMADA_SYSTEM = "/api/v1/namespaces/karmada-system"
CONFIG_MAPS = f"{KARMADA_SYSTEM}/configmaps"
CUSTOMIZATIONS = "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations"


def send_retain(server: Server) -> Any:
    """Return the patch of Retain for a kind that only a customization in a ConfigMap interprets."""
    kind = {"apiVersion": "games.example.com/v1", "kind": "Game", "metadata": {"name": "g"}}
    request = {
        "uid": "u",
        "operation": "Retain",
        "object": {**kind, "spec": {}},
        "observedObject": {**kind, "spec": {"seat": 7}},
    }
    review = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "request": request}
    response = json.loads(server.request("POST", "/interpret", json.dumps(review).encode())[1])["response"]
    return json.loads(base64.b64decode(response["patch"])) if "patch" in response else response


def karmada_config(line: str) -> Any:
    text = f"apiVersion: games.example.com/v1\nkind: Game\nretention.lua: |\n  {line}\n"
    metadata = {"name": "karmada-config", "namespace": "karmada-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"retention.customizations": text}}


def test_a_config_map_changes_retention_live(server: Server, admin: Api) -> None:
    admin.apply(KARMADA_SYSTEM, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-system"}})
    assert "not found" in send_retain(server)["status"]["message"]
    with pytest.raises(
        RefusedError, match=r"data\[retention.customizations\]\[0\].retention.lua: Lua script error: line"
    ):
        admin.create(CONFIG_MAPS, karmada_config("desiredObj.spec.seat ="))
    admin.create(CONFIG_MAPS, karmada_config("desiredObj.spec.seat = runtimeObj.spec.seat"))
    added = [{"op": "add", "path": "/spec/seat", "value": 7}]
    wait_for(lambda: send_retain(server) == added, what="the script answers")

    other = {**karmada_config("no Lua at all"), "metadata": {"name": "other", "namespace": "karmada-system"}}
    admin.create(CONFIG_MAPS, other)
    admin.merge(f"{CONFIG_MAPS}/karmada-config", karmada_config("desiredObj.spec.seat = runtimeObj.spec.seat + 1"))
    wait_for(lambda: send_retain(server) == [{"op": "add", "path": "/spec/seat", "value": 8}], what="the new one does")

    admin.delete(f"{CONFIG_MAPS}/karmada-config")
    wait_for(lambda: "not found" in str(send_retain(server)), what="no interpreter answers any more")


def test_the_last_valid_version_of_a_customization_stays_in_use(server: Server, admin: Api) -> None:
    """The customization is written while no webhook checks it, as in a Karmada without fleethook."""
    install_karmada_crds(admin)
    target = {"apiVersion": "games.example.com/v1", "kind": "Game"}

    def customization(script: str) -> Any:
        return {
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": "game"},
            "spec": {"target": target, "customizations": {"retention": {"luaScript": script}}},
        }

    with pytest.raises(RefusedError, match="not found function Retain"):
        admin.create(CUSTOMIZATIONS, customization("function Keep(d, o) return d end"))
    admin.create(CUSTOMIZATIONS, customization("function Retain(d, o) d.spec.seat = o.spec.seat return d end"))
    wait_for(
        lambda: send_retain(server) == [{"op": "add", "path": "/spec/seat", "value": 7}], what="the script answers"
    )

    webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/fleethook"
    kept = admin[webhooks]
    admin.delete(webhooks)
    try:
        wait_for(
            lambda: (
                admin.call("PUT", f"{CUSTOMIZATIONS}/game", _update(admin, customization("function Retain(")))[0] == 200
            ),
            what="no webhook refuses it",
        )
        wait_for(lambda: "its last valid version stays in use" in read_customizations(server), what="it is reported")
    finally:
        del kept["metadata"]["resourceVersion"], kept["metadata"]["uid"]
        admin.call("POST", webhooks.rpartition("/")[0], kept)
    assert send_retain(server) == [{"op": "add", "path": "/spec/seat", "value": 7}]


def read_customizations(server: Server) -> str:
    """Return the check of customizations, which leaves the server ready; ``""`` while none is refused."""
    checks = json.loads(server.request("GET", "/readyz", b"")[1])["checks"]
    return "".join(one["detail"] for one in checks if one["name"] == "customizations" and one["ok"])


def _update(admin: Api, document: Any) -> Any:
    current = admin[f"{CUSTOMIZATIONS}/game"]
    document["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
    return document
