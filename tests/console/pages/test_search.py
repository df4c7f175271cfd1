from typing import Any

import pytest

from fleethook.cluster.store import ObjectKey, Store
from fleethook.console.pages.search import MAX_HITS, find_hits
from fleethook.model.openyurt import NODE_POOL
from tests.builders import NEW_IMAGE, node_pool, workload, yurt_app_set
from tests.console.pages.reading import HOSTILE, get
from tests.console.visits import console_of


def find_name(_store: Store, key: ObjectKey) -> str:
    return f"/{key.name}"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("DEMO1", "/overriders/overrider?namespace=default&name=demo1"),
        ("default/demo", "/overriders?subject=default%2Fdemo"),
        ("east", "/overriders?pool=hangzhou-east"),
        ("hangzhou-x", "/overriders/pool?namespace=default&name=demo&subject=YurtAppSet&pool=hangzhou&kind=Deployment"),
        (
            "checks",
            "/dispatch/object?choice=%2Fadmissionregistration.k8s.io%2FValidatingWebhookConfiguration%2F%2Fchecks",
        ),
        (
            "second.example",
            "/dispatch/object?choice=%2Fadmissionregistration.k8s.io%2FValidatingWebhookConfiguration%2F%2Fchecks#webhook-2",
        ),
        ("beijing", "/overriders?pool=beijing"),
        ("script", "/interpreters?q=Widget"),
        ("mirror", "/crds"),
    ],
)
async def test_a_name_leads_to_the_page_of_its_object(text: str, address: str) -> None:
    script = {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "script"},
        "spec": {"target": {"apiVersion": "example.org/v1", "kind": "Widget"}},
    }
    webhooks = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "checks"},
        "webhooks": [{"name": "first.example.org"}, {"name": "second.example.org"}],
    }
    karmada = {
        "apiVersion": "operator.karmada.io/v1alpha1",
        "kind": "Karmada",
        "metadata": {"name": "mirror", "namespace": "a"},
    }
    objects = [yurt_app_set(), NEW_IMAGE, workload(), node_pool("hangzhou-east"), script, webhooks, karmada]
    page = await get(console_of(*objects), "/search", f"q={text}")
    assert address in page.addresses


async def test_only_a_node_pool_without_an_object_is_found_by_its_subject() -> None:
    page = await get(console_of(yurt_app_set()), "/search", "q=beijing")
    assert "Node pool without a NodePool 1" in page.text
    defined = await get(console_of(yurt_app_set(), node_pool("beijing")), "/search", "q=beijing")
    assert "without a NodePool" not in defined.text


async def test_a_webhook_has_its_place_on_the_page_of_its_configuration() -> None:
    webhooks = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "checks"},
        "webhooks": [{"name": "first.example.org"}, None, {"name": "second.example.org"}],
    }
    app = console_of(webhooks)
    (address,) = [one for one in (await get(app, "/search", "q=second")).addresses if "#webhook" in one]
    path, _, query = address.partition("#")[0].partition("?")
    assert f'id="{address.partition("#")[2]}"><bdi>second.example.org' in (await get(app, path, query)).source


def test_short_names_come_first_and_the_others_are_counted() -> None:
    store = Store()
    for number in range(MAX_HITS + 10):
        store.put(node_pool(f"east-{number:02}"))
    store.put(node_pool("east"))
    found = find_hits(store, NODE_POOL, "EAST", find_name)
    assert (found.kind, found.total, len(found.hits)) == ("NodePool", MAX_HITS + 11, MAX_HITS)
    assert [one.address for one in found.hits[:2]] == ["/east", "/east-00"]


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_names_stay_texts(text: str) -> None:
    subject: Any = yurt_app_set(f"demo{text}")
    await get(console_of(subject, node_pool(f"demo{text}")), "/search", "q=demo")
