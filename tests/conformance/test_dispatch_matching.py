"""Matching of webhooks and verification of their answers, with an apiserver's own cases (dispatch.yaml)."""

import base64
import copy
import json
import re
from typing import Any

import pytest

from fleethook.engines.dispatch.attributes_and_cluster_annotation import build_attributes
from fleethook.engines.dispatch.call.review_response_and_patch import (
    ReviewError,
    build_review,
    parse_response,
)
from fleethook.engines.dispatch.call.webhook_call_and_audit import Audit, choose_review_version
from fleethook.engines.dispatch.dispatcher import limit_warnings
from fleethook.engines.dispatch.errors_and_deadline import denial
from fleethook.engines.dispatch.match.equivalent_resources import (
    Equivalent,
    EquivalentIndex,
    WebhookInvocation,
    find_invocation,
)
from fleethook.engines.dispatch.match.selectors_and_decision import NamespaceLabels, match_namespace, match_object
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import compile_webhooks
from fleethook.model.admission import Status
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource, parse_api_version
from fleethook.model.rule_matching import RuleAttributes, compare_fields
from tests.conformance.dispatch_cases import FIXTURES, MATCH_ALL, SUITES, cases
from tests.engines.dispatch.builders import request_of

# --- Predicates ---------------------------------------------------------------------------------------------------


def asked(given: dict[str, Any]) -> RuleAttributes:
    resource = GroupVersionResource(given["group"], given["version"], given["resource"])
    return RuleAttributes(given["operation"], resource, given["subresource"], bool(given["namespace"]))


AXES = {"group": "apiGroups", "version": "apiVersions", "op": "operations", "operation": "operations"}
AXES |= {"resource": "resources", "scope": "scope"}


@cases("rules")
def test_rules(case: dict[str, Any]) -> None:
    """Each case is about one list of a rule; the other lists may not match the request."""
    (hook,) = compile_webhooks("validating", "", {"metadata": {"name": "c"}, "webhooks": [{"rules": [case["rule"]]}]})

    def found(one: dict[str, Any]) -> bool:
        return {axis.name: axis.ok for axis in compare_fields(hook.rules[0], asked(one))}[AXES[case["axis"]]]

    assert [found(one) for one in case["match"]] == [True] * len(case["match"])
    assert [found(one) for one in case["noMatch"]] == [False] * len(case["noMatch"])


def gvk(text: str) -> GroupVersionKind:
    api_version, _, kind = text.partition(", Kind=")
    return GroupVersionKind(*parse_api_version(api_version), kind)


def equivalents(resource: GroupVersionResource, subresource: str) -> tuple[Equivalent, ...]:
    found = []
    for line in FIXTURES["equivalentResources"]["registrationOrder"]:
        path, _, kind = line.partition(" -> ")
        group, version, plural, *rest = path.split("/")
        if (plural, "".join(rest)) == (resource.resource, subresource):
            known = None if kind == "(empty kind)" else gvk(kind)
            found.append(Equivalent(GroupVersionResource(group, version, plural), known))
    return tuple(found)


@cases("should_call_hook")
def test_which_version_a_webhook_is_called_with(case: dict[str, Any]) -> None:
    (hook,) = compile_webhooks("validating", "", {"metadata": {"name": "c"}, "webhooks": [case["webhook"]]})
    request = case["request"]
    group, version, plural = request["resource"].split("/")
    resource = GroupVersionResource(group, version, plural)
    subject = RuleAttributes(request["operation"], resource, request["subresource"], bool(request["namespace"]))
    found = find_invocation(
        hook, subject, gvk(request["kind"]), EquivalentIndex(equivalents(resource, request["subresource"]))
    )
    expected = case["expect"]
    assert (found is not None) is expected["call"]
    if found is not None:
        assert found.kind == gvk(expected["kind"])
        assert "/".join(found.resource) == expected["resource"]
        assert found.subresource == expected["subresource"]


def attributes(**given: Any) -> Any:
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    asked_for = {
        "uid": "u", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": document,
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "name": "p", **given,
    }  # fmt: skip
    made = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked_for}
    return build_attributes(request_of(made), cluster="c")


def selecting(**selectors: Any) -> Any:
    document = {"metadata": {"name": "c"}, "webhooks": [{"name": "w", "rules": MATCH_ALL, **selectors}]}
    (hook,) = compile_webhooks("validating", "c", document)
    return hook


@cases("object_selector")
def test_object_selectors(case: dict[str, Any]) -> None:
    def document(labels: Any) -> Any:
        if labels is None:
            return None
        return {"metadata": {"labels": labels["labels"]}} if isinstance(labels, dict) else {"kind": "NodeProxyOptions"}

    subject = attributes(
        object=document(case["object"]),
        oldObject=document(case["oldObject"]),
        operation=case.get("operation", "CREATE"),
    )
    assert match_object(selecting(objectSelector=case["selector"]), subject).ok is case["expect"]


@cases("namespace_labels")
def test_the_labels_that_a_namespace_selector_matches(case: dict[str, Any]) -> None:
    subject = attributes(
        operation=case["operation"],
        resource={"group": "", "version": "v1", "resource": case["resource"]},
        subResource=case["subresource"],
        namespace=case["attrNamespace"],
        object=None if case["object"] is None else {"metadata": case["object"]},
    )
    stored = NamespaceLabels(SUITES["namespace_labels"]["lister"].get(case["attrNamespace"], {}))
    for expected in ({**case["expectLabels"]}, {**case["expectLabels"], "other": "x"}):
        found = match_namespace(selecting(namespaceSelector={"matchLabels": expected}), subject, stored)
        assert found.ok is (expected == case["expectLabels"])


# --- Reviews ------------------------------------------------------------------------------------------------------


@cases("verify_admission_response")
def test_verification_of_answers(case: dict[str, Any]) -> None:
    document = copy.deepcopy(case["review"])
    response = document.get("response") or {}
    if "patch" in response:
        response["patch"] = base64.b64encode(response["patch"].encode()).decode()
    uid = SUITES["verify_admission_response"]["uid"]
    expected = case["expect"]

    def found() -> Any:
        return parse_response(
            json.dumps(document).encode(), uid=uid, version=case["decodedAs"], mutating=case["mutating"]
        )

    if "errorContains" in expected:
        with pytest.raises(ReviewError, match=re.escape(expected["errorContains"])):
            found()
        return
    answer = found()
    assert answer.allowed is expected["allowed"]
    assert answer.audit_annotations == expected.get("auditAnnotations", {})
    assert answer.patch.decode() == (expected.get("patch") or "")
    assert answer.patch_type == expected.get("patchType", "")
    if "result" in expected:
        assert answer.status == Status(**expected["result"])


@cases("create_admission_objects")
def test_the_review_that_a_webhook_gets(case: dict[str, Any]) -> None:
    versions, expected = tuple(case["admissionReviewVersions"]), case["expect"]
    if "errorContains" in expected:
        with pytest.raises(ReviewError, match=re.escape(expected["errorContains"])):
            choose_review_version(versions)
        return
    given = SUITES["create_admission_objects"]["attributes"]
    kind, (group, version, plural) = gvk(given["kind"]), given["resource"].split("/")
    subject = attributes(
        **{name: given[name] for name in ("namespace", "name", "operation", "dryRun", "userInfo", "options")},
        kind=kind._asdict(),
        resource={"group": group, "version": version, "resource": plural},
    )
    invoked = SUITES["create_admission_objects"]["invocation"]
    invocation = WebhookInvocation(GroupVersionResource(*invoked["resource"].split("/")), "", gvk(invoked["kind"]), 0)
    version = choose_review_version(versions)
    made = build_review(subject, invocation, kind=gvk(invoked["kind"]), version=version, uid="1")
    assert made["apiVersion"] == expected["reviewVersion"]
    request = made["request"]
    for member, wanted in expected["request"].items():
        if member.endswith("ind"):
            wanted = gvk(wanted)._asdict()  # noqa: PLW2901 - the form of the review
        elif member in ("resource", "requestResource"):
            wanted = GroupVersionResource(*wanted.split("/"))._asdict()  # noqa: PLW2901 - as above
        assert request.get(member, "") == wanted, member
    assert request["userInfo"] == given["userInfo"]


@cases("denial_status")
def test_denials(case: dict[str, Any]) -> None:
    result = None if case["result"] is None else Status(**case["result"])
    status = denial("foo", result).status
    expected = case["expect"]
    assert (status.message, status.code, status.status) == (expected["message"], expected["code"], expected["status"])


@cases("warnings")
def test_warnings(case: dict[str, Any]) -> None:
    """The header, and the agent in it, are written by the apiserver that gets the warnings in an answer."""
    written = [text for agent, text in case["add"] if " " not in agent]
    assert list(limit_warnings(written)) == [re.search(r'"(.*)"', header)[1] for header in case["expect"]]


@cases("patch_annotation_value")
def test_patch_annotations(case: dict[str, Any]) -> None:
    document = {"metadata": {"name": case["configuration"]}, "webhooks": [{"name": case["webhook"]}]}
    (hook,) = compile_webhooks("mutating", "", document)
    audit = Audit()
    audit.record_patch(hook, case["patch"], size=len(json.dumps(case["patch"])), round_number=0)
    assert audit.annotations == {"patch.webhook.admission.k8s.io/round_0_index_0": case["expect"]}
