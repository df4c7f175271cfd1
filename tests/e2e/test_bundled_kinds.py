"""kube-apiserver accepts each aggregated status and each retained object of the bundle.

The definitions of the kinds come from facts about those of their projects (tests/conformance/bundle_definitions.yaml), the
objects from the definitions. A retained object is not refused if the desired object alone is not, and nothing is dropped.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import yaml

from fleethook.engines.interpret.interpreter_chain import Chain
from fleethook.engines.interpret.lua.bundled_and_crossplane_kinds import BundleLayer, read_bundle
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner
from fleethook.interpret.interpreter import Question
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import GENERATION_ANNOTATION, Operation
from tests.e2e.cluster import CRDS, Api, control_plane, is_established
from tests.e2e.keep_alive import keep_alive
from tests.e2e.schema_values import JSONObject, Values
from tests.e2e.test_aggregated_statuses import CONDITION
from tests.waiting import wait_for

SEQUENCES: Final = 6
PAIRS: Final = 20
NAMESPACE: Final = "bundled"
FACTS: Final = yaml.safe_load(
    (Path(__file__).parents[1] / "conformance" / "bundle_definitions.yaml").read_text("utf-8")
)
KINDS: Final = {
    GroupVersionKind(facts["group"], version, facts["kind"]): facts for facts in FACTS for version in facts["versions"]
}
ANY: Final = {"x-kubernetes-preserve-unknown-fields": True}
SCALARS: Final = {
    "any": ANY, "int-or-string": {"x-kubernetes-int-or-string": True}, "time": {"type": "string", "format": "date-time"},
    "nullable-time": {"type": "string", "format": "date-time", "nullable": True},
    "metav1": {"type": "array", "items": CONDITION, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
}  # fmt: skip
MARKS: Final = {
    "labels": {"kueue.x-k8s.io/queue-name": "q", "velero.io/storage-location": "a"},
    "annotations": {"cluster.x-k8s.io/replicas-managed-by": "a", "elasticsearch.alpha.elastic.co/autoscaling-spec": "{}",
                    "crossplane.io/external-name": "a"},
}  # fmt: skip
"""Labels and annotations that change what is retained."""


def expand(fact: Any) -> JSONObject:
    """Return the schema for a value of the facts."""
    if isinstance(fact, list):
        keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": fact[1:]} if len(fact) > 1 else {}
        items = expand(fact[0])
        if keys and "properties" not in items:
            items = {"type": "object", "properties": {key: {"type": "string"} for key in fact[1:]}, **ANY}
        return {"type": "array", "items": items | ({"required": fact[1:]} if keys else {}), **keys}
    if isinstance(fact, dict):
        if "*" in fact:
            return {"type": "object", "additionalProperties": expand(fact["*"])}
        members = {name: one for name, one in fact.items() if name}
        return {
            "type": "object", "minProperties": fact.get("", 0), "required": [name[:-1] for name in members if name[-1] == "!"],
            "properties": {name.removesuffix("!"): expand(one) for name, one in members.items()},
        }  # fmt: skip
    if fact in SCALARS:
        return SCALARS[fact]
    if "|" in fact:
        return {"type": "string", "enum": fact.split("|")}
    kind, _, least = fact.partition(" ")
    return {"type": kind} | ({"minimum": int(least)} if least else {})


def schema_of(facts: JSONObject) -> JSONObject:
    spec = expand(facts.get("spec", "any")) | {"type": "object"}
    if rules := facts.get("rules"):
        spec["x-kubernetes-validations"] = [{"rule": rule} for rule in rules]
    properties = {"spec": spec} | {name: expand(facts[name]) for name in ("status", "operation") if name in facts}
    return {"type": "object", "properties": properties}


def definition(kinds: list[GroupVersionKind]) -> JSONObject:
    """Return the CustomResourceDefinition of the versions of a kind."""
    group, _, kind = kinds[0]
    plural = f"{kind.lower()}s"
    versions = [
        {"name": one.version, "served": True, "storage": one == kinds[0], "schema": {"openAPIV3Schema": schema_of(KINDS[one])}}
        | ({"subresources": {"status": {}}} if KINDS[one].get("subresource", True) else {})
        for one in kinds
    ]  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural}, "versions": versions},
    }  # fmt: skip


@pytest.fixture(scope="module")
def api(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A control plane of its own with all definitions, because other tests count those of theirs."""
    directory = tmp_path_factory.mktemp("bundled")
    with control_plane(binaries, directory) as plane, keep_alive(plane.api()) as admin:
        admin.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        groups = sorted({(one.group, one.kind) for one in KINDS})
        made = [definition([one for one in KINDS if (one.group, one.kind) == group]) for group in groups]
        for one in made:
            admin.create(CRDS, one)
        for one in made:
            name = one["metadata"]["name"]
            wait_for(lambda name=name: is_established(admin, name), what=f"{name} is established")
        yield admin


@pytest.fixture(scope="module")
def chain() -> Chain:
    def unobserved(*_: Any) -> None:
        return

    return Chain([BundleLayer(Runner(), observe=unobserved)])


def path_of(kind: GroupVersionKind) -> str:
    return f"/apis/{kind.api_version}/namespaces/{NAMESPACE}/{kind.kind.lower()}s"


def operations() -> dict[GroupVersionKind, set[Operation]]:
    found: dict[GroupVersionKind, set[Operation]] = {}
    for bundled in read_bundle():
        for kind in bundled.kinds:
            found.setdefault(kind, set()).update(bundled.operations)
    return found


OPERATIONS: Final = operations()


async def test_each_aggregated_status_is_accepted(api: Api, chain: Chain) -> None:
    refused = []
    for kind in (
        one for one, facts in KINDS.items() if "status" in facts and Operation.AGGREGATE_STATUS in OPERATIONS[one]
    ):
        schema = expand(KINDS[kind]["status"])
        for number in range(SEQUENCES):
            draw = Random(f"{kind} {number}")
            template = api.create(path_of(kind), make_object(kind, Values(draw), {"generateName": "a-"}))
            own = f"{path_of(kind)}/{template['metadata']['name']}"
            items = [{"clusterName": f"m{index}"} for index in range(draw.randint(1, 3))]
            for item in items:
                if draw.random() < 0.85:
                    status = Values(draw, share=draw.choice([0.3, 0.6, 0.9])).value(schema, "status")
                    item.update(await report(chain, kind, template, status))
            question = Question(Operation.AGGREGATE_STATUS, kind, template, items=items)
            aggregated = (await chain.answer(question)).answer.object
            assert aggregated is not None
            suffix = "/status" if KINDS[kind].get("subresource", True) else ""
            code, answer, _ = api.call("PUT", own + suffix, aggregated, fieldValidation="Strict")
            if code >= 300:
                refused.append((kind, number, answer["message"], items, aggregated.get("status")))
            api.delete(own)
    assert not refused, (len(refused), sorted({(one[0].kind, one[2]) for one in refused})[:20], refused[:2])


async def report(chain: Chain, kind: GroupVersionKind, template: JSONObject, status: JSONObject) -> JSONObject:
    """Return the member of the item of a cluster, as its InterpretStatus answers."""
    metadata = {**template["metadata"], "generation": 1, "annotations": {GENERATION_ANNOTATION: "1"}}
    if Operation.STATUS not in OPERATIONS[kind]:
        return {"status": status}
    question = Question(Operation.STATUS, kind, {**template, "metadata": metadata, "status": status})
    return {"status": (await chain.answer(question)).answer.status}


async def test_each_retained_object_is_accepted(api: Api, chain: Chain) -> None:
    wrong, counts = [], Counter[str]()
    retaining = [one for one in KINDS if Operation.RETAIN in OPERATIONS[one]]
    for kind, number in ((kind, number) for kind in retaining for number in range(PAIRS)):
        draw = Random(f"{kind} {number}")
        marks = {name: draw.choice([{}, found]) for name, found in MARKS.items()}
        code, observed, _ = api.call(
            "POST", path_of(kind), make_object(kind, Values(draw, share=0.7), {"generateName": "r-", **marks})
        )
        if code >= 300:
            counts["not created"] += 1
            continue
        own = f"{path_of(kind)}/{observed['metadata']['name']}"
        metadata = {name: observed["metadata"][name] for name in ("name", "resourceVersion")}
        desired = make_object(kind, Values(draw, share=draw.choice([0.2, 0.7])), {**metadata, **marks})
        for name in set(desired.get("spec", {})) & set(observed.get("spec", {})):
            if draw.random() < 0.5:
                desired["spec"][name] = observed["spec"][name]
        desired.pop("status", None)  # Karmada removes it.
        if api.call("PUT", own, desired, dryRun="All")[0] < 300:
            question = Question(Operation.RETAIN, kind, desired, observed)
            retained = (await chain.answer(question)).answer.object
            assert retained is not None
            counts["retained" if retained != desired else "unchanged"] += 1
            code, answer, _ = api.call("PUT", own, retained, dryRun="All", fieldValidation="Strict")
            if code >= 300:
                wrong.append((kind, number, answer["message"], observed, desired))
            elif answer.get("status") != observed.get("status"):
                wrong.append((kind, number, "the status is lost", observed, desired))
        api.delete(own)
    assert not wrong, (len(wrong), sorted({(one[0].kind, one[2]) for one in wrong})[:20], wrong[:2])
    assert counts["retained"] > counts["not created"]


def make_object(kind: GroupVersionKind, values: Values, metadata: JSONObject) -> JSONObject:
    """Return an object with a spec, and with a status if it is no subresource."""
    schema = schema_of(KINDS[kind])["properties"]
    members = {"spec": values.value(schema["spec"])}
    if not KINDS[kind].get("subresource", True):
        members |= {name: values.value(schema[name], name) for name in ("status", "operation") if name in schema}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **members}
