"""Karmada's interpreters, case by case; `DIFFERENCES` has the cases with another answer and the reasons."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from fleethook.engines.interpret.interpreter_chain import Chain
from fleethook.engines.interpret.lua.lua_documents import expect_list, expect_object
from fleethook.engines.interpret.lua.lua_machine import LoadedScript, Machine
from fleethook.engines.interpret.lua.script_layer_and_runner import SCRIPT_LIMITS
from fleethook.engines.interpret.lua.script_parser import parse_script
from fleethook.engines.interpret.native.native_kinds import NativeLayer
from fleethook.engines.interpret.native.retain_and_prune import prune
from fleethook.engines.interpret.review.answer_validation import dependency_problems
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import problems
from fleethook.engines.interpret.webhooks.webhook_layer import read_response
from fleethook.interpret.interpreter import Answer, InterpretError, Question
from fleethook.model.formats.quantity import Quantity
from fleethook.model.gvk import GroupVersionKind, parse_api_version
from fleethook.model.karmada import EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION, Operation


class _Loader(yaml.SafeLoader):
    """Keeps times as text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

CASES: Final = yaml.load((Path(__file__).parent / "interpreter.yaml").read_text(), _Loader)["cases"]
NATIVE: Final = [case for case in CASES if case["layer"] == "native"]

DIFFERENCES: Final = {
    "reflect-hpa": "currentMetrics: null is noise of a Go type without omitempty",
    "agg-pvc-no-items": "no cluster has reported, so no claim is known to be Bound",
    "agg-job-both-failed": "since Kubernetes 1.31 the apiserver refuses Failed without FailureTarget, and with completionTime",
    "deps-ingress-tls-no-secret": "networking/v1 IngressTLS.secretName is optional, so TLS without it needs no Secret",
}
"""Cases in which upstream's answer is a defect (karmada pkg/resourceinterpreter/default/native)."""

WORDS: Final = {
    "accessor error (not an int64)": "accessor error",
    ".status accessor error": ".status accessor error",
    "strconv.ParseInt": "expected the generation of the resource template",
}
"""Errors of Go's libraries, and the corresponding ones of ours."""


def question(case: dict[str, Any]) -> Question:
    given, operation = case["input"], Operation(case["op"])
    group, version = parse_api_version(case["kind"].rpartition("/")[0])
    kind = GroupVersionKind(group, version, case["kind"].rpartition("/")[2])
    document = given.get("desired") or given["object"]
    return Question(
        operation, kind, document, given.get("observed"), given.get("replica") or 0, given.get("items") or ()
    )


async def ask(case: dict[str, Any]) -> Answer:
    return (await Chain([NativeLayer()]).answer(question(case))).answer


@pytest.mark.parametrize("case", NATIVE, ids=[case["id"] for case in NATIVE])
async def test_native(case: dict[str, Any]) -> None:
    expected = case["expect"]
    if case["id"] in DIFFERENCES:
        await check_difference(case)
        return
    if "error" in expected:
        text = WORDS.get(expected["error"], expected["error"])
        with pytest.raises(InterpretError) as caught:
            await ask(case)
        assert text in str(caught.value)
        return
    answer = await ask(case)
    if "object" in expected:
        assert answer.object == expected["object"]
    elif "healthy" in expected:
        assert answer.healthy is expected["healthy"]
    elif "replica" in expected:
        assert answer.replicas == expected["replica"]
        assert amounts(answer.requirements) == amounts(expected["requires"])
    elif "dependencies" in expected:
        by_name = sorted(expected["dependencies"], key=lambda one: (one["kind"], one["name"]))
        assert sorted(answer.dependencies or [], key=lambda one: (one["kind"], one["name"])) == by_name
    elif case["op"] == "AggregateStatus":
        assert answer.object is not None
        found = timeless(answer.object.get("status"))
        assert (without_zeros(found) if case["kind"] == "v1/Pod" else found) == expected["status"]
    else:
        assert answer.status == expected["status"]


def without_zeros(status: Any) -> Any:
    """Return a Pod's status without zeros, as in the cases, which were made from Go structs."""
    if not isinstance(status, dict):
        return status
    return {
        name: [
            {key: member for key, member in container.items() if member or isinstance(member, bool)}
            for container in value
        ]
        if name.endswith("ontainerStatuses")
        else value
        for name, value in status.items()
    }


async def check_difference(case: dict[str, Any]) -> None:
    answer = await ask(case)
    if case["id"] == "reflect-hpa":
        assert answer.status == {"currentReplicas": 2, "desiredReplicas": 3}
    elif case["id"] == "agg-pvc-no-items":
        assert answer.object == case["input"]["object"]
    elif case["id"] == "agg-job-both-failed":
        assert answer.object is not None
        status = timeless(answer.object["status"])
        (failed,) = case["expect"]["status"].pop("conditions")
        assert status.pop("conditions") == [failed, {**failed, "type": "FailureTarget"}]
        assert status == {name: case["expect"]["status"][name] for name in ("failed", "startTime")}
    else:
        assert answer.dependencies == []


def amounts(requirements: Any) -> Any:
    """Return requirements with quantities by value, for comparison."""
    if requirements is None:
        return None
    asked = {name: Quantity.parse(text) for name, text in requirements.get("resourceRequest", {}).items()}
    return {**requirements, "resourceRequest": asked}


def timeless(status: Any) -> Any:
    """Return a status without current times; an empty one is None."""
    if not status:
        return status
    conditions = [
        {name: value for name, value in one.items() if name not in ("lastProbeTime", "lastTransitionTime")}
        for one in status.get("conditions", [])
    ]
    return {**status, **({"conditions": conditions} if conditions else {})}


PRUNED: Final = [case for case in CASES if case["layer"] == "native-prune"]


@pytest.mark.parametrize("case", PRUNED, ids=[case["id"] for case in PRUNED])
def test_prune(case: dict[str, Any]) -> None:
    document = dict(case["input"]["object"])
    # Upstream matches only the name of the kind, we match its group, too, so the case gets the core version.
    told = {"apiVersion": "v1"} if "kind" in document and "apiVersion" not in document else {}
    assert prune({**told, **document}) == {**told, **case["expect"]["object"]}


DEPENDENCIES: Final = [case for case in CASES if case["op"] == "verify-dependencies"]


@pytest.mark.parametrize("case", DEPENDENCIES, ids=[case["id"] for case in DEPENDENCIES])
def test_dependencies_are_verified(case: dict[str, Any]) -> None:
    found = "; ".join(dependency_problems(case["input"]["dependencies"]))
    expected = case["expect"]["error_contains"]
    assert WORDS.get(expected, expected) in found


CONFIGURATIONS: Final = [case for case in CASES if case["op"] == "validate-config"]


@pytest.mark.parametrize("case", CONFIGURATIONS, ids=[case["id"] for case in CONFIGURATIONS])
def test_configurations_are_validated(case: dict[str, Any]) -> None:
    found = [f"{problem.field}: {problem.text}" for problem in problems(INTERPRETER_CONFIGURATION, case["input"])]
    assert case["expect"]["error_contains"] in "; ".join(found)


@pytest.mark.parametrize("case", CONFIGURATIONS, ids=[case["id"] for case in CONFIGURATIONS])
def test_the_proposed_kind_has_the_same_rules(case: dict[str, Any]) -> None:
    webhooks = [as_proposed(webhook) for webhook in case["input"]["webhooks"]]
    found = [
        f"{problem.field}: {problem.text}" for problem in problems(EXPLORING_CONFIGURATION, {"webhooks": webhooks})
    ]
    expected = case["expect"]["error_contains"].replace("kinds[0]", "resources[0]")
    assert expected in "; ".join(found)


def as_proposed(webhook: dict[str, Any]) -> dict[str, Any]:
    rules = [
        {**{name: value for name, value in rule.items() if name != "kinds"}, "resources": rule["kinds"]}
        for rule in webhook["rules"]
    ]
    rules = [
        {**rule, "operations": [name.replace("Retain", "ExploreRetaining") for name in rule["operations"]]}
        for rule in rules
    ]
    kept = {name: value for name, value in webhook.items() if name != "interpreterContextVersions"}
    return {**kept, "rules": rules, "exploreReviewVersions": webhook["interpreterContextVersions"]}


VERIFIED: Final = [case for case in CASES if case["op"] == "verify"]


@pytest.mark.parametrize("case", VERIFIED, ids=[case["id"] for case in VERIFIED])
def test_responses_are_verified(case: dict[str, Any]) -> None:
    given = case["input"]
    asked = Question(
        Operation(given["operation"]), GroupVersionKind("", "v1", "Pod"), {"apiVersion": "v1", "kind": "Pod"}
    )
    text = json.dumps({"response": given["response"]}).encode()
    with pytest.raises(InterpretError) as caught:
        read_response(text, asked, uid=given["uid"], proposed=False)
    assert str(caught.value) == case["expect"]["error"]


def test_every_case_is_run() -> None:
    """Cases of Lua run with the Lua layer."""
    run = [*NATIVE, *PRUNED, *DEPENDENCIES, *CONFIGURATIONS, *VERIFIED]
    assert {case["id"] for case in CASES if case["layer"] != "lua"} == {case["id"] for case in run}


LUA: Final = [case for case in CASES if case["layer"] == "lua"]


def lua_text(value: Any) -> str:
    """Return a value as Lua text, with one empty table for both empty types of JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"[{json.dumps(name)}] = {lua_text(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list):
        return "{" + ", ".join(map(lua_text, value)) + "}"
    return "nil" if value is None else json.dumps(value)


@pytest.mark.parametrize("case", LUA, ids=[case["id"] for case in LUA])
def test_lua(case: dict[str, Any]) -> None:
    given = case["input"]
    if case["op"] == "convert":
        source = f"function F() return {lua_text(given['encoded'])} end"
        documents = given["references"] or [{}]
    else:
        source = f"function F() return require('kube').{case['op'].removeprefix('kube.')}(unpack({lua_text(given['args'])})) end"
        documents = [{}]
    program = LoadedScript(case["id"], case["id"], parse_script(source).runnable)
    [found] = Machine().call(program, "F", documents, results=1, limits=SCRIPT_LIMITS, references=documents)
    if given.get("target") == "list":
        found = expect_list(found, "F")
    elif given.get("target") == "object":
        found = expect_object(found, "F")
    assert found == case["expect"]["value"]
