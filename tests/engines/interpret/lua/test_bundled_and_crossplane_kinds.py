"""Every rule of the bundle with its fixtures and with empty objects."""

from itertools import product
from typing import Any

import pytest

from fleethook.cluster.store import Store
from fleethook.engines.interpret.interpreter_chain import Chain
from fleethook.engines.interpret.interpreter_fixtures import Fixture, compare_answer
from fleethook.engines.interpret.lua.bundled_and_crossplane_kinds import BundledKind, BundleLayer, read_bundle
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner
from fleethook.engines.interpret.lua.script_warnings import list_findings
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import DEFINITIONS_BY_KIND
from fleethook.interpret.interpreter import Question
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation

KINDS = list(read_bundle())
CASES = [(kind.folder, case) for kind in KINDS for case in kind.cases()]


def unobserved(*_: Any) -> None:
    return


@pytest.fixture(scope="module")
def chain() -> Chain:
    return Chain([BundleLayer(Runner(), observe=unobserved)])


@pytest.mark.parametrize(
    ("folder", "case"), CASES, ids=[f"{folder}-{case.question.operation}-{case.name}" for folder, case in CASES]
)
async def test_fixture(chain: Chain, folder: str, case: Fixture) -> None:
    assert case.question.kind in {one for kind in KINDS if kind.folder == folder for one in kind.kinds}
    explained = await chain.answer(case.question)
    assert list(compare_answer(case, explained.answer)) == []


@pytest.mark.parametrize("kind", KINDS, ids=[kind.folder for kind in KINDS])
def test_every_rule_has_a_fixture(kind: BundledKind) -> None:
    found = {case.question.operation for case in kind.cases()}
    assert found <= kind.operations
    # The conventions report and aggregate the status of all kinds alike: a fixture for each group is enough.
    group = f"{kind.folder.partition('/')[0]}/"
    beside = [one for one in KINDS if one.conventions is not None and one.folder.startswith(group)]
    anywhere = {case.question.operation for one in beside for case in one.cases()}
    scripts = {rule.function.operation for rule in kind.rules}
    assert kind.operations - scripts - found <= anywhere & {Operation.STATUS, Operation.AGGREGATE_STATUS}
    assert scripts <= found
    if kind.conventions is not None and Operation.HEALTH in kind.operations:
        verdicts = {case.output["healthy"] for case in kind.cases() if case.question.operation is Operation.HEALTH}
        assert verdicts == {True, False}, "a rule of health needs fixtures of both answers"
    for rule in kind.rules:
        assert list(list_findings(rule)) == []


# Kinds with Pods that do not serve by themselves (docs/interpreters.md): workloads, whose Pods must all be updated and available,
# and runs, which end.
WORKLOADS = {
    "apps.kruise.io/CloneSet", "apps.kruise.io/SidecarSet", "apps.kruise.io/StatefulSet", "apps.kruise.io/UnitedDeployment",
    "game.kruise.io/GameServerSet", "leaderworkerset.x-k8s.io/LeaderWorkerSet",
}  # fmt: skip
RUNS = {
    "apps.kruise.io/BroadcastJob", "argoproj.io/Workflow", "batch.volcano.sh/Job", "flink.apache.org/FlinkDeployment",
    "jobset.x-k8s.io/JobSet", "kubeflow.org/MPIJob", "kubeflow.org/Notebook", "kubeflow.org/PyTorchJob", "ray.io/RayJob",
    "sparkoperator.k8s.io/SparkApplication", "trainer.kubeflow.org/TrainJob",
}  # fmt: skip


def test_each_kind_that_serves_is_healthy_while_it_changes() -> None:
    """Karmada evicts unhealthy objects, also databases in a rolling update."""
    pods = {Operation.REPLICA, Operation.COMPONENT}
    serving = {kind.folder for kind in KINDS if kind.operations & pods and Operation.HEALTH in kind.operations}
    named = {
        folder
        for folder, case in CASES
        if case.name.startswith("serves while it changes") and case.output == {"healthy": True}
    }
    assert serving - named - WORKLOADS - RUNS == set(), "add a fixture `serves while it changes`"
    assert (WORKLOADS | RUNS) & named == set()


@pytest.mark.parametrize("kind", KINDS, ids=[kind.folder for kind in KINDS])
async def test_aggregating_again_changes_nothing(chain: Chain, kind: BundledKind) -> None:
    for case in kind.cases():
        if case.question.operation is Operation.AGGREGATE_STATUS:
            once = (await chain.answer(case.question)).answer.object
            assert once is not None
            assert (await chain.answer(case.question._replace(object=once))).answer.object == once


# The CRDs of the kinds require spec.
MINIMAL: list[dict[str, Any]] = [{"spec": {}}, {"spec": {}, "status": {}}, {"spec": {}, "status": {"conditions": []}}]


@pytest.mark.parametrize("kind", KINDS, ids=[kind.folder for kind in KINDS])
async def test_empty_object_is_answered(chain: Chain, kind: BundledKind) -> None:
    for target, operation, rest in product(kind.kinds, kind.operations, MINIMAL):
        document = {"apiVersion": target.api_version, "kind": target.kind, "metadata": {"name": "x"}, **rest}
        for items in ([], [{"clusterName": "a"}], [{"clusterName": "a", "status": {}}]):
            answer = (await chain.answer(Question(operation, target, document, document, 1, items))).answer
            if operation is Operation.HEALTH and "status" not in rest:
                assert answer.healthy in (True, False)


@pytest.mark.parametrize("folder", sorted({folder for folder, case in CASES if case.output.get("healthy") is True}))
async def test_an_object_that_is_being_deleted_is_unhealthy(chain: Chain, folder: str) -> None:
    question = next(case.question for name, case in CASES if name == folder and case.output.get("healthy") is True)
    metadata = {**question.object["metadata"], "deletionTimestamp": "2026-08-01T10:00:00Z"}
    answered = await chain.answer(question._replace(object={**question.object, "metadata": metadata}))
    assert answered.answer.healthy is False


# --- The kinds that users of Crossplane define ---

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
        (GroupVersionKind("stacks.crossplane.io", "v1alpha1", "StackInstall"), None, False),
        (GroupVersionKind("apps", "v1", "Deployment"), None, False),
    ],
)
def test_categories_or_the_group_of_a_provider_tell_the_kinds(
    kind: GroupVersionKind, categories: tuple[Any, ...] | None, *, known: bool
) -> None:
    layer = make_layer(*(() if categories is None else [define(kind, *categories)]))
    assert (layer.find(Question(Operation.RETAIN, kind, {})) is not None) is known
    assert layer.find(Question(Operation.REPLICA, kind, {})) is None
    registered = {one.version for one, _ in layer.answers() if one.group_kind == kind.group_kind}
    assert registered == ({kind.version} if known and categories is not None else set())


async def test_a_claim_keeps_its_composite_resource() -> None:
    document = {"apiVersion": CLAIM.api_version, "kind": CLAIM.kind, "metadata": {"name": "a"}, "spec": {"size": 1}}
    observed = {**document, "spec": {"size": 2, "resourceRef": {"kind": "XDatabase", "name": "a-x"}}}
    chain = Chain([make_layer(define(CLAIM, "claim"))])
    answered = await chain.answer(Question(Operation.RETAIN, CLAIM, document, observed))
    assert answered.answer.object == {**document, "spec": {**observed["spec"], "size": 1}}
    assert answered.steps[-1].hook == "bundle crossplane.io/Managed"
