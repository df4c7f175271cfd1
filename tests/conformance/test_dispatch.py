"""Dispatch, with the cases of an apiserver's and kcp's own tests (dispatch.yaml)."""

import asyncio
import base64
import json
import re
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from aiohttp import web

from fleethook.engines.dispatch.attributes_and_cluster_annotation import build_attributes, restore_annotation
from fleethook.engines.dispatch.call.phases_and_warnings import MutatingPhase, run_validating_phase
from fleethook.engines.dispatch.call.review_response_and_patch import Patcher
from fleethook.engines.dispatch.call.webhook_call_and_audit import Audit, WebhookCaller
from fleethook.engines.dispatch.dispatch_server import build_dispatcher
from fleethook.engines.dispatch.errors_and_deadline import Deadline, StatusError, find_budget
from fleethook.engines.dispatch.match.match_conditions import ConditionEvaluator
from fleethook.engines.dispatch.match.selectors_and_decision import (
    NamespaceLabels,
    RequestContext,
    build_rule_attributes,
    read_labels,
)
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import find_owner
from fleethook.engines.dispatch.webhooks.cluster_webhooks import WebhookIndex
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import compile_webhooks
from fleethook.model.gvk import GroupVersionKind, parse_api_version
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.work.threads_and_gc import Worker, run_work
from tests.conformance.dispatch_cases import FIXTURES, MATCH_ALL, SUITES, cases
from tests.engines.dispatch.builders import (
    binding,
    configuration,
    definition,
    export,
    request_of,
    review,
    store_of,
    webhook,
)
from tests.engines.dispatch.webhook_server import Webhooks, allow, webhooks
from tests.waiting import NET

# --- Complete phases, against webhooks that answer over TLS --------------------------------------------------------------


def answer_of(name: str) -> Any:
    """The fixture's answer of that name, as a webhook gives it."""
    given = FIXTURES["answers"].get(name, FIXTURES["answers"]["default"])

    def answer(_: dict[str, Any]) -> Any:
        if "review" in given:
            return web.json_response({})
        if "httpStatus" in given:
            return web.Response(status=given["httpStatus"], text=given.get("body", ""))
        response = {key: value for key, value in given.items() if key not in ("patch", "rawPatch")}
        text = given.get("rawPatch") or (json.dumps(given["patch"]) if "patch" in given else None)
        if text is not None:
            response["patch"] = base64.b64encode(text.encode()).decode()
        return response

    return answer


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Webhooks]:
    async with webhooks(tmp_path) as made:
        for name in (*FIXTURES["answers"], "unknown"):
            made.answers[f"/{name}"] = answer_of(name)
        yield made


@pytest.fixture
async def client() -> AsyncIterator[HookClient]:
    async with HookClient(allow_private=True) as made:
        yield made


def hook_document(made: dict[str, Any], server: Webhooks) -> dict[str, Any]:
    """A webhook of the table without defaults; addresses replace services, because there is no cluster to resolve them."""
    rules = made.get("rules")
    found = {key: value for key, value in made.items() if key not in ("answer", "via", "rules", "sleepMs", "path")}
    found["rules"] = MATCH_ALL if rules == "match_all" else rules or []
    found["clientConfig"] = server.client_config("/" + (made.get("answer") or made["path"]).strip("/"))
    return found


def review_of_case(case: dict[str, Any]) -> dict[str, Any]:
    fixture, asked = FIXTURES["objects"][case["object"]], FIXTURES["request"]
    group, version = parse_api_version(fixture["apiVersion"])
    metadata = {"name": fixture["name"], "namespace": asked["namespace"]}
    document = {"apiVersion": fixture["apiVersion"], "kind": fixture["kind"]}
    labels = {**fixture["labels"], **case.get("extraLabels", {})}
    resource = re.search(r"/([a-z]+)(?: |$)", fixture["resource"])
    return {
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "operation": asked["operation"], "namespace": asked["namespace"], "name": fixture["name"],
            "kind": {"group": group, "version": version, "kind": fixture["kind"]},
            "resource": {"group": group, "version": version, "resource": resource[1]},
            "object": {**document, "metadata": {**metadata, "labels": labels}},
            "oldObject": {**document, "metadata": metadata},
            "userInfo": asked["userInfo"], "dryRun": case["dryRun"],
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "UpdateOptions"},
        },
    }  # fmt: skip


async def _keep(document: Any, _: GroupVersionKind) -> Any:
    return document


class Run:
    """One phase of one case, with its results."""

    def __init__(self, case: dict[str, Any], server: Webhooks, client: HookClient) -> None:
        phase = case["phase"]
        document = {
            "metadata": {"name": case.get("configuration", FIXTURES["configurationName"])},
            "webhooks": [hook_document(one, server) for one in case["webhooks"]],
        }
        self.attributes = build_attributes(request_of(review_of_case(case)), cluster="")
        self.hooks = WebhookIndex(list(compile_webhooks(phase, "", document)))
        self.relevant = self.hooks.find_relevant(build_rule_attributes(self.attributes), self.attributes.kind, ())
        self.audit, self.warnings = Audit(), []
        self.observed: list[Any] = []
        worker = Worker()
        self.context = RequestContext(
            namespace=NamespaceLabels(FIXTURES["namespace"]["labels"]),
            deadline=Deadline(time.monotonic() + NET),
            call_webhook=WebhookCaller(client, observe=lambda _hook, **rest: self.observed.append(rest)).call,
            convert=None,
            set_defaults=_keep,
            evaluator=ConditionEvaluator(worker),
            patching=Patcher(worker, ""),
            audit=self.audit,
            warnings=self.warnings,
        )

    async def mutate(self) -> StatusError | None:
        self.mutating = MutatingPhase(self.relevant, self.attributes, self.context)
        try:
            await self.mutating.run_round(0)
        except StatusError as error:
            return error
        return None

    async def validate(self) -> StatusError | None:
        refusals = await run_validating_phase(self.relevant, self.attributes, self.context)
        return refusals[0] if refusals else None


def check(case: dict[str, Any], run: Run, refusal: StatusError | None) -> None:
    expected = case["expect"]
    assert (refusal is None) is expected["allowed"], refusal
    if refusal is not None:
        assert refusal.status.code == expected["code"]
        assert expected.get("errorContains", "") in str(refusal)
    assert run.audit.annotations == expected["auditAnnotations"]


@cases("nonmutating_validating")
async def test_validating_webhooks(case: dict[str, Any], server: Webhooks, client: HookClient) -> None:
    run = Run(case, server, client)
    check(case, run, await run.validate())


@cases("nonmutating_as_mutating")
async def test_webhooks_that_do_not_mutate_in_the_mutating_phase(
    case: dict[str, Any], server: Webhooks, client: HookClient
) -> None:
    run = Run(case, server, client)
    check(case, run, await run.mutate())


@cases("mutating")
async def test_mutating_webhooks(case: dict[str, Any], server: Webhooks, client: HookClient) -> None:
    run = Run(case, server, client)
    check(case, run, await run.mutate())
    if "labels" in case["expect"]:
        assert read_labels(run.mutating.attributes.object) == case["expect"]["labels"]
    for name, reinvoked in case["expect"].get("reinvoke", {}).items():
        uid = next(hook.uid for hook in run.hooks.webhooks if hook.name == name)
        assert (uid in run.mutating._to_reinvoke) is reinvoked


async def test_clients_are_kept_by_endpoint_and_not_by_webhook(server: Webhooks, client: HookClient) -> None:
    """Upstream counts misses of its cache of clients; the visible effect is that connections are reused."""
    for case in SUITES["cached_client"]["cases"]:
        given = {**case, "webhooks": [case["webhook"]], "phase": "validating", "object": "pod", "dryRun": False}
        run = Run(given, server, client)
        assert (await run.validate() is None) is case["expect"]["allowed"], case["id"]
        assert len(run.observed) == 1


# --- Reinvocation -------------------------------------------------------------------------------------------------


class Apiserver:
    """The apiserver around the webhooks of these cases: its Priority plugin runs before them in each round."""

    PRIORITIES: ClassVar = {"low-priority": 1, "high-priority": 10}

    @classmethod
    def priority(cls, document: dict[str, Any]) -> dict[str, Any]:
        name = document["spec"].get("priorityClassName")
        if name is None:
            return {**document, "spec": {**document["spec"], "priority": 0}}
        if name not in cls.PRIORITIES:
            raise StatusError(403, "Forbidden", f"no PriorityClass with name {name} was found")
        return {**document, "spec": {**document["spec"], "priority": cls.PRIORITIES[name]}}


def reinvocation_answer(path: str, *, labels: dict[str, str], spec: dict[str, Any]) -> list[dict[str, Any]]:
    fixed = FIXTURES["reinvocation"]["answers"][path]
    if isinstance(fixed, list):
        return fixed
    if path == "/addlabel":
        return [] if labels.get("a") == "true" else [{"op": "add", "path": "/metadata/labels/a", "value": "true"}]
    if path == "/conditionaladdlabel":
        return [{"op": "add", "path": "/metadata/labels/b", "value": "true"}] if "a" in labels else []
    if path == "/setpriority" and spec.get("priorityClassName") != "high-priority":
        set_class = {"op": "add", "path": "/spec/priorityClassName", "value": "high-priority"}
        return [set_class, *([{"op": "remove", "path": "/spec/priority"}] if "priority" in spec else [])]
    return []


@cases("reinvocation")
async def test_reinvocation(case: dict[str, Any], server: Webhooks, client: HookClient) -> None:
    def answering(path: str) -> Any:
        def answer(review: dict[str, Any]) -> dict[str, Any]:
            document = review["request"]["object"]
            operations = reinvocation_answer(path, labels=document["metadata"]["labels"], spec=document["spec"])
            text = base64.b64encode(json.dumps(operations).encode()).decode()
            return {"allowed": True, **({"patch": text, "patchType": "JSONPatch"} if operations else {})}

        return answer

    for one in case["webhooks"]:
        server.answers[one["answer"]] = answering(one["answer"])
    given = [
        {**one, "rules": "match_all", "namespaceSelector": {}, "objectSelector": {}, "admissionReviewVersions": ["v1"]}
        for one in case["webhooks"]
    ]
    run = Run({**case, "webhooks": given, "phase": "mutating", "object": "pod", "dryRun": False}, server, client)
    spec = {"priorityClassName": case["initialPriorityClass"]} if case["initialPriorityClass"] else {}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "labeled", "labels": {"x": "true"}}, "spec": spec}
    mutating = MutatingPhase(run.relevant, run.attributes._replace(object=pod), run.context)
    refusal = None
    try:
        for number in (0, 1):
            mutating.attributes = mutating.attributes._replace(object=Apiserver.priority(mutating.attributes.object))
            await mutating.run_round(number)
            if not mutating.needs_reinvocation:
                break
    except StatusError as error:
        refusal = error
    expected = case["expect"]
    assert {path: server.paths.count(path) for path in expected["invocations"]} == expected["invocations"]
    assert expected.get("errorContains", "") in str(refusal or "")
    assert (refusal is None) is ("errorContains" not in expected)
    if "labels" in expected:
        assert read_labels(mutating.attributes.object) == expected["labels"]
    if "auditAnnotations" in expected:
        assert run.audit.annotations == expected["auditAnnotations"]


# --- kcp ----------------------------------------------------------------------------------------------------------


@cases("kcp_owner_resolution")
def test_owner_resolution(case: dict[str, Any]) -> None:
    """By kcp's own rules; tests/engines/dispatch/test_schema_owner_and_cluster_paths.py has the cases that fleethook refuses."""
    documents = []
    for one in case["bindings"]:
        made = binding(case["consumer"], "", name=one["name"])
        made["status"] = one["status"]
        if "deletionTimestamp" in one:
            made["metadata"]["deletionTimestamp"] = one["deletionTimestamp"]
        documents.append(made)
    resource, _, group = case["groupResource"].partition(".")
    found = find_owner(store_of(*documents), cluster=case["consumer"], group=group, resource=resource, as_kcp=True)
    expected = case["expectSourceCluster"]
    assert found.cluster in (expected if isinstance(expected, list) else [expected])


@cases("kcp_cluster_annotation")
def test_the_cluster_annotation_is_removed_again(case: dict[str, Any]) -> None:
    metadata: dict[str, Any] = {"name": "o"}
    if case["annotations"] is not None:
        metadata["annotations"] = case["annotations"]
    sent = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    made = request_of(
        {
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {"uid": "u", "operation": "CREATE", "object": sent},
        }
    )  # fmt: skip
    seen = build_attributes(made, cluster=case["cluster"]).object
    assert seen["metadata"]["annotations"] == {**(case["annotations"] or {}), "kcp.io/cluster": case["cluster"]}
    during = {**seen["metadata"]["annotations"], **case.get("duringCall", {})}
    after = restore_annotation({**seen, "metadata": {**seen["metadata"], "annotations": during}}, sent)
    assert after["metadata"]["annotations"] == case["expect"]["after"]


# --- Complete dispatches -------------------------------------------------------------------------------------------


def dispatcher(documents: list[dict[str, Any]], client: HookClient) -> Any:
    return build_dispatcher(store_of(*documents), client, observe=lambda _hook, **_: None)


@cases("timeouts")
async def test_timeouts(case: dict[str, Any], server: Webhooks, client: HookClient) -> None:
    """The path gives the duration of the webhook; one that takes longer than the request never answers here."""

    hanging = asyncio.Event()

    async def answer(review_of_call: dict[str, Any], path: str) -> dict[str, Any]:
        if float(path.rpartition("/")[2].rstrip("s")) > case["requestTimeoutSeconds"]:
            hanging.set()
            await asyncio.Event().wait()
        return allow(review_of_call)

    documents = []
    for phase in ("mutating", "validating"):
        hooks = [
            {**webhook(), "clientConfig": server.client_config(one["path"]), "failurePolicy": one["failurePolicy"],
             "timeoutSeconds": one["timeoutSeconds"]}
            for one in case[phase]
        ]  # fmt: skip
        documents.append(configuration("c", phase, *hooks))
        server.answers |= {one["path"]: partial(answer, path=one["path"]) for one in case[phase]}
    # Only a hanging webhook advances this clock.
    deadline = Deadline(
        find_budget(f"timeout={case['requestTimeoutSeconds']}s".encode()),
        lambda: float(case["requestTimeoutSeconds"]) if hanging.is_set() else 0.0,
    )
    made, expected = request_of(review()), case["expect"]
    for phase in ("mutating", "validating"):
        found = await run_work(
            dispatcher(documents, client).dispatch(made, cluster="c", phase=phase, deadline=deadline)
        )
        if not found.response.allowed:
            # Upstream's texts come from its own HTTP server, which finally ends the request.
            assert (found.response.code, "errorContainsAnyOf" in expected) == (504, True)
            break
    else:
        assert "errorContainsAnyOf" not in expected
    assert {call.path: call.query for call in server.calls} == {
        path: f"timeout={seconds}s" for path, seconds in expected["sentTimeouts"].items()
    }


async def test_kcps_own_webhooks_are_called_only_in_their_workspace(server: Webhooks, client: HookClient) -> None:
    (case,) = (one for one in SUITES["kcp_e2e"] if one["id"] == "kcp-e2e-1")
    for phase in case["phases"]:
        server.calls.clear()
        documents = []
        for cluster, given in case["clusters"].items():
            documents += [definition(cluster, crd, "v1alpha1", kind="Cowboy") for crd in given["crds"]]
            for one in given["webhooks"]:
                made = {key: value for key, value in one.items() if key not in ("config", "answer")}
                made["clientConfig"] = server.client_config(f"/{one['answer']}")
                documents.append(configuration(cluster, phase, made, name=one["config"]))
        for step in case["steps"]:
            before = len(server.calls)
            group, version, resource = step["resource"].split("/")
            metadata = {"generateName": step["generateName"]}
            cowboy = {"apiVersion": f"{group}/{version}", "kind": "Cowboy", "metadata": metadata}
            asked_for = review(cowboy, resource={"group": group, "version": version, "resource": resource})
            deadline = Deadline(time.monotonic() + NET)
            found = await run_work(
                dispatcher(documents, client).dispatch(
                    request_of(asked_for), cluster=step["cluster"], phase=phase, deadline=deadline
                )
            )
            assert found.response.allowed
            calls = [one.object["metadata"]["annotations"]["kcp.io/cluster"] for one in server.calls[before:]]
            assert calls == step["expect"]["calledIn"]
            assert len(server.calls) == step["expect"].get("totalCalls", len(server.calls))


async def test_kcps_example_denies_and_names_the_workspace(server: Webhooks, client: HookClient) -> None:
    (case,) = (one for one in SUITES["kcp_e2e"] if one["id"] == "kcp-example-1")

    def answer(asked_for: dict[str, Any]) -> dict[str, Any]:
        cowboy = asked_for["request"]["object"]
        workspace = cowboy["metadata"]["annotations"]["kcp.io/cluster"]
        message = (
            f'cowboy "{cowboy["metadata"]["name"]}" rejected: spec.intent must not be "bad" (workspace {workspace})'
        )
        return {"allowed": cowboy["spec"]["intent"] != "bad", "status": {"message": message}}

    server.answers["/cowboys"] = answer
    given = case["webhook"]
    rule = {"apiGroups": ["wildwest.dev"], "apiVersions": ["*"], "resources": ["cowboys"]}
    hook = webhook(
        given["name"],
        clientConfig=server.client_config("/cowboys"),
        rules=[{**rule, "operations": given["operations"]}],
    )
    documents = [
        configuration("provider", "validating", hook), export("provider", "cowboys.wildwest.dev"),
        binding("2b1n", "provider", "cowboys.wildwest.dev"),
    ]  # fmt: skip
    name, spec = case["object"]["name"], case["object"]["spec"]
    cowboy = {"apiVersion": "wildwest.dev/v1alpha1", "kind": "Cowboy", "metadata": {"name": name}, "spec": spec}
    found = await run_work(dispatcher(documents, client).dispatch(
        request_of(review(cowboy, resource={"group": "wildwest.dev", "version": "v1alpha1", "resource": "cowboys"})),
        cluster="2b1n", phase="validating", deadline=Deadline(time.monotonic() + NET),
    ))  # fmt: skip
    assert found.response.allowed is case["expect"]["allowed"]
    expected = case["expect"]["errorContains"].replace("<consumer logical cluster>", "2b1n")
    assert found.response.message == expected
