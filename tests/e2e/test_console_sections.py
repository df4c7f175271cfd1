"""The main tasks of Dispatch and Interpreters on a real kube-apiserver, which decides about the user of each request."""

import html
import re
from collections.abc import Callable
from typing import Any

import pytest

from app.console.sections import MUTATING, SECTIONS, VALIDATING
from app.model.gvk import GroupKind
from tests.e2e.cluster import Api
from tests.e2e.test_console_access import RBAC, Console, console, create_account
from tests.waiting import wait_for

__all__ = ["console"]

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
GADGET = "{apiVersion: example.test/v1, kind: Gadget, metadata: {name: a, namespace: default}}"
SCRIPT = "function InterpretHealth(object) return object.spec.ready == true end"
PLURALS = {MUTATING: "mutatingwebhookconfigurations", VALIDATING: "validatingwebhookconfigurations"}


def find_plural(kind: GroupKind) -> str:
    return PLURALS.get(kind, f"{kind.kind.lower()}s")


def permit_section(admin: Api, namespace: str, account: str, path: str) -> None:
    """Give a service account the right to get the kinds of a section."""
    section = next(one for one in SECTIONS if one.path == path)
    rules = [
        {"apiGroups": [kind.group], "resources": [find_plural(kind)], "verbs": ["get"]}
        for kind in (*section.kinds, *section.further)
    ]
    meta = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": f"{namespace}-{account}"}}
    admin.create(f"{RBAC}/clusterroles", {**meta, "kind": "ClusterRole", "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{namespace}-{account}"}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    binding = {**meta, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
    admin.create(f"{RBAC}/clusterrolebindings", binding)


def send(console: Console, token: str, address: str, fields: dict[str, str]) -> tuple[int, str]:
    """Send the form of a page as a user with a token does."""
    right = {"Authorization": f"Bearer {token}"}
    status, text, cookies = console.request(address, **right)
    if status != 200:
        return status, text
    found = re.search(r'name="csrf_token" value="([0-9a-f]+)"', text)
    assert found is not None
    form = {**fields, "csrf_token": found[1]}
    status, text, _ = console.request(address, form=form, Cookie="; ".join(cookies), **right)
    return status, html.unescape(text)


@pytest.fixture
def webhook(admin: Api, namespace: str, put: Callable[[str, dict[str, Any]], Any]) -> str:
    """The name of a webhook for a kind that no test writes."""
    name = f"gadgets.{namespace}.example.test"
    rule = {"apiGroups": ["example.test"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["gadgets"]}
    one = {
        "name": name, "rules": [rule], "clientConfig": {"url": "https://127.0.0.1:1/"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
    }  # fmt: skip
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": MUTATING.kind,
        "metadata": {"name": f"gadgets-{namespace}"}, "webhooks": [one],
    }  # fmt: skip
    put(WEBHOOKS, configuration)
    return name


def test_a_pasted_object_is_explained_to_users_who_may_get_webhooks(
    console: Console, admin: Api, namespace: str, webhook: str
) -> None:
    fields = {"document": GADGET, "operation": "CREATE"}
    token = create_account(admin, namespace, "explainer")
    status, text = send(console, token, "/dispatch", fields)
    assert status == 403
    assert f"may not get {MUTATING.kind}.{MUTATING.group} in all namespaces" in text
    assert webhook not in text
    permit_section(admin, namespace, "explainer", "/dispatch")

    def explain(operation: str) -> str:
        status, text = send(console, token, "/dispatch", {**fields, "operation": operation})
        return text if status == 200 and webhook in text else ""

    decisions = r'<details class="hook (\w+)"[^>]*>(?:(?!</summary>).)*?' + re.escape(webhook)
    for operation, decision in (("CREATE", "call"), ("DELETE", "skip")):
        text = wait_for(lambda operation=operation: explain(operation), what="the console knows the webhook")  # type: ignore[misc]
        assert re.findall(decisions, text, re.DOTALL) == [decision]


def test_a_script_runs_for_users_who_may_get_the_interpreters(console: Console, admin: Api, namespace: str) -> None:
    address = "/interpreters/playground"
    ready = "{apiVersion: example.test/v1, kind: Gadget, metadata: {name: a}, spec: {ready: true}}"
    fields = {"language": "lua", "operation": "InterpretHealth", "code": SCRIPT, "desired": ready}
    token = create_account(admin, namespace, "player")
    assert send(console, token, address, fields)[0] == 403
    permit_section(admin, namespace, "player", "/interpreters")
    wait_for(lambda: console.get(address, token)[0] == 200, what="the right has effect")
    for desired, healthy in ((ready, "true"), (ready.replace("true", "false"), "false")):
        status, text = send(console, token, address, {**fields, "desired": desired})
        assert status == 200
        found = re.search(r'<pre tabindex="0" aria-label="Result">(.*?)</pre>', text, re.DOTALL)
        assert found is not None
        assert healthy in found[1]
    status, text = send(console, token, address, {**fields, "code": "function InterpretHealth(o) error('x') end"})
    assert status == 422
    assert "Line 1: " in text
    status, text = console.get("/interpreters", token)
    assert status == 200
    assert "Deployment" in text
