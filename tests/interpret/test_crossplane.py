"""Finds the kinds that users of Crossplane define, and answers about them by the bundle."""

from typing import Any

import pytest

from app.interpret.chain import Chain
from app.interpret.lua.bundle import BundleLayer
from app.interpret.lua.runner import Runner
from app.interpret.question import Question
from app.interpret.webhook_layer import DEFINITIONS_BY_KIND
from app.model.gvk import GroupVersionKind
from app.model.karmada import Operation
from app.store import Store

CLAIM = GroupVersionKind("example.org", "v1", "Database")


def define(kind: GroupVersionKind, *categories: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.kind.lower()}s.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": {"kind": kind.kind, "categories": list(categories)},
            "versions": [{"name": kind.version, "served": True}, {"name": "v0", "served": False}],
        },
    }


def make_layer(*definitions: dict[str, Any]) -> BundleLayer:
    store = Store([DEFINITIONS_BY_KIND])
    for one in definitions:
        store.put(one)
    return BundleLayer(Runner(), observe=lambda *_: None, definitions=store)


@pytest.mark.parametrize(
    ("kind", "categories", "known"),
    [
        (CLAIM, ("claim",), True),
        (CLAIM, ("composite",), True),
        (CLAIM, ("all", 1, None), False),
        (CLAIM, None, False),
        (GroupVersionKind("rds.aws.upbound.io", "v1beta1", "Instance"), ("crossplane", "managed", "aws"), True),
        (GroupVersionKind("rds.aws.upbound.io", "v1beta1", "Instance"), ("crossplane",), False),
        (GroupVersionKind("rds.aws.m.upbound.io", "v1beta1", "Instance"), None, True),
        (GroupVersionKind("kubernetes.crossplane.io", "v1alpha2", "Object"), None, True),
        (GroupVersionKind("aws.upbound.io", "v1beta1", "ProviderConfig"), None, False),
        (GroupVersionKind("aws.upbound.io", "v1beta1", "ProviderConfigUsage"), None, False),
        (GroupVersionKind("pkg.crossplane.io", "v1", "ProviderRevision"), None, False),
        (GroupVersionKind("apps", "v1", "Deployment"), None, False),
    ],
)
def test_categories_or_the_group_of_a_provider_tell_the_kinds(
    kind: GroupVersionKind, categories: tuple[Any, ...] | None, *, known: bool
) -> None:
    layer = make_layer(*(() if categories is None else [define(kind, *categories)]))
    assert layer.knows(kind, Operation.RETAIN) is known
    assert (layer.find(Question(Operation.RETAIN, kind, {})) is not None) is known
    assert not layer.knows(kind, Operation.REPLICA)
    registered = {one.version for one, _ in layer.answers() if one.group_kind == kind.group_kind}
    assert registered == ({kind.version} if known and categories is not None else set())


async def test_a_claim_keeps_its_composite_resource() -> None:
    document = {"apiVersion": CLAIM.api_version, "kind": CLAIM.kind, "metadata": {"name": "a"}, "spec": {"size": 1}}
    observed = {**document, "spec": {"size": 2, "resourceRef": {"kind": "XDatabase", "name": "a-x"}}}
    chain = Chain([make_layer(define(CLAIM, "claim"))])
    answered = await chain.answer(Question(Operation.RETAIN, CLAIM, document, observed))
    assert answered.answer.object == {**document, "spec": {**observed["spec"], "size": 1}}
    assert answered.steps[-1].hook == "bundle crossplane.io/Managed"
