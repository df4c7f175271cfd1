"""matchConditions decide before the call of a webhook."""

from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.engines.dispatch.attributes_and_cluster_annotation import build_attributes
from fleethook.engines.dispatch.errors_and_deadline import StatusError
from fleethook.engines.dispatch.match.equivalent_resources import Equivalent
from fleethook.engines.dispatch.match.selectors_and_decision import (
    NamespaceLabels,
    build_rule_attributes,
    check_filters,
    find_barrier,
    is_exempt,
    read_namespace,
)
from fleethook.engines.dispatch.webhooks.cluster_webhooks import WebhookIndex
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import compile_webhooks
from fleethook.model.gvk import GroupVersionResource
from tests.engines.dispatch.builders import WIDGETS, configuration, namespace, request_of, review, store_of, webhook
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, hook

NOBODY = {"matchLabels": {"of": "nobody"}}
V2 = (Equivalent(GroupVersionResource("example.org", "v2", "widgets"), None),)
NOT_FOUND = NamespaceLabels({}, StatusError(404, "NotFound", "no such namespace"))


def find_hook_barrier(hook: Any, made: Any = None, labels: Any = None, equivalents: Any = ()) -> Any:
    """Return the verdict that prevents a call, None if there is none; fails if no rule matches."""
    attributes = build_attributes(request_of(made or review()), cluster="c")
    compiled = WebhookIndex(list(compile_webhooks("validating", "c", configuration("c", "validating", hook))))
    (relevant,) = compiled.find_relevant(build_rule_attributes(attributes), attributes.kind, equivalents)
    return find_barrier(check_filters(relevant, attributes, labels or NamespaceLabels({})))


def selecting(**members: Any) -> Any:
    return webhook(**{"namespaceSelector": {}, "objectSelector": {}, **members})


@pytest.mark.parametrize("member", ["namespaceSelector", "objectSelector"])
def test_a_missing_selector_selects_nothing(member: Any) -> None:
    """An apiserver always defaults selectors, so this needs a configuration without defaulting."""
    found = find_hook_barrier(selecting(**{member: None}))
    assert (found.stage, found.error) == (member, None)


def test_namespace_selectors_do_not_filter_cluster_scoped_objects() -> None:
    made = review({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "x"}})
    assert find_hook_barrier(selecting(namespaceSelector=NOBODY), made) is None


def test_written_namespaces_are_selected_by_their_new_labels() -> None:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"], "operations": ["*"]}]
    hook = selecting(rules=rules, namespaceSelector={"matchLabels": {"of": "me"}})
    written = namespace("c", "n", of="me")
    assert find_hook_barrier(hook, review(written, namespace="n"), NOT_FOUND) is None
    assert (
        find_hook_barrier(hook, review(None, old=written, operation="DELETE", namespace="n"), NOT_FOUND).error
        is NOT_FOUND.error
    )


def test_unknown_kinds_are_errors() -> None:
    found = find_hook_barrier(
        selecting(rules=[{**WIDGETS, "apiVersions": ["v2"]}], matchPolicy="Equivalent"), equivalents=V2
    )
    text = "Internal error occurred: unable to convert to example.org/v2, Resource=widgets: unknown kind"
    assert (found.error.status.code, str(found.error)) == (500, text)


@pytest.mark.parametrize("member", ["namespaceSelector", "objectSelector"])
def test_mismatches_take_precedence_over_errors(member: Any) -> None:
    hook = selecting(rules=[{**WIDGETS, "apiVersions": ["v2"]}], matchPolicy="Equivalent", **{member: NOBODY})
    found = find_hook_barrier(hook, equivalents=V2)
    assert (found.stage, found.error) == (member, None)


def test_unknown_namespaces_are_errors_unless_the_object_selector_mismatches() -> None:
    assert find_hook_barrier(selecting(namespaceSelector=NOBODY), labels=NOT_FOUND).error is NOT_FOUND.error
    assert find_hook_barrier(selecting(namespaceSelector=NOBODY, objectSelector=NOBODY), labels=NOT_FOUND).error is None


def test_invalid_selectors_are_errors() -> None:
    found = find_hook_barrier(selecting(objectSelector={"matchExpressions": [{"key": "k", "operator": "Near"}]}))
    assert found.error.status.code == 500
    assert "not a valid selector operator" in str(found.error)


@pytest.mark.parametrize(
    ("kind", "exempt"),
    [("ValidatingWebhookConfiguration", True), ("MutatingAdmissionPolicyBinding", True), ("Other", False)],
)
def test_admission_configurations_are_exempt(kind: Any, exempt: Any) -> None:
    made = review({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "x"}})
    assert is_exempt(build_attributes(request_of(made), cluster="c")) is exempt


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_condition_errors_follow_the_failure_policy(front: Front, server: Webhooks, policy: Any) -> None:
    conditions = [{"name": "large", "expression": "object.spec.missing > 10"}]
    hooks = hook(server, "/w", matchConditions=conditions, failurePolicy=policy)
    store = store_of(configuration("ws1", "validating", hooks))
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert response.allowed is (policy == "Ignore")
    assert server.calls == []
    if policy == "Fail":
        assert response.code == 403
        expected = "widgets.example.org \"b\" is forbidden: expression 'object.spec.missing > 10' resulted in error:"
        assert response.message.startswith(expected)


async def test_without_an_authorizer_its_variable_is_missing(front: Front, server: Webhooks) -> None:
    conditions = [{"name": "may", "expression": "authorizer.path('/x').check('get').allowed()"}]
    store = store_of(configuration("ws1", "validating", hook(server, "/w", matchConditions=conditions)))
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert (response.allowed, response.code) == (False, 403)
    assert "no such attribute(s): authorizer" in response.message


async def test_an_unreadable_namespace_is_an_internal_error() -> None:
    class Forbidding:
        async def read_one(self, *_: Any, **__: Any) -> None:
            raise APIError(403, "Forbidden", "no")

        def scope(self, cluster: str) -> str:
            return cluster

    with pytest.raises(StatusError, match="failed to read namespace n of logical cluster ws2: 403 Forbidden: no"):
        await read_namespace("ws2", "n", live=Forbidding())
