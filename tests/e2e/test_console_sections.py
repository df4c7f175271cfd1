"""The main tasks of the sections on a real kube-apiserver, which decides about the user of each request."""

import asyncio
import html
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleethook.console.sections import MUTATING, VALIDATING, list_sections
from fleethook.model.gvk import GroupKind
from tests.builders import UID, workload
from tests.console.recorded import objects, record_workloads
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.crds_controller import KarmadaFactory
from tests.e2e.test_console_access import RBAC, Console, console, create_account, serving
from tests.waiting import wait_for

__all__ = ["console"]

Put = Callable[[str, dict[str, Any]], Any]
OPENYURT = "/apis/apps.openyurt.io/v1alpha1/namespaces/default"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
GADGET = "{apiVersion: example.test/v1, kind: Gadget, metadata: {name: a, namespace: default}}"
SCRIPT = "function InterpretHealth(object) return object.spec.ready == true end"
PLURALS = {MUTATING: "mutatingwebhookconfigurations", VALIDATING: "validatingwebhookconfigurations"}


def find_plural(kind: GroupKind) -> str:
    return PLURALS.get(kind, f"{kind.kind.lower()}s")


def permit_section(admin: Api, namespace: str, account: str, path: str) -> None:
    """Give a service account the right to get the kinds of a section."""
    section = next(one for one in list_sections() if one.path == path)
    rules = [
        {"apiGroups": [kind.group], "resources": [find_plural(kind)], "verbs": ["get"]}
        for kind in (*section.kinds, *section.further)
    ]
    name = f"{namespace}-{account}-{section.title.split()[0].lower()}"
    meta = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    admin.create(f"{RBAC}/clusterroles", {**meta, "kind": "ClusterRole", "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
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
def webhook(admin: Api, namespace: str, put: Put) -> str:
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

    decisions = r'<li class="hook (\w+)">(?:(?!</summary>).)*?' + re.escape(webhook)
    for operation, decision in (("CREATE", "call"), ("DELETE", "skip")):
        text = wait_for(lambda operation=operation: explain(operation), what="the console knows the webhook")  # type: ignore[misc]
        assert re.findall(decisions, text, re.DOTALL) == [decision]


def test_a_script_runs_for_users_who_may_get_the_interpreters(console: Console, admin: Api, namespace: str) -> None:
    address = "/interpreters/playground"
    ready = "{apiVersion: example.test/v1, kind: Gadget, metadata: {name: a}, spec: {ready: true}}"
    fields = {"operation": "InterpretHealth", "code": SCRIPT, "desired": ready}
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
    status, text = console.get("/interpreters?kinds=all", token)
    assert status == 200
    assert "Deployment" in text


def test_instances_of_the_cluster_are_shown_to_users_who_may_get_them(
    account: Path, console: Console, admin: Api, namespace: str, make: KarmadaFactory
) -> None:
    assert account.exists()  # The fixture has installed the definition of Karmada's operator.
    address = f"https://crds.example.test/{namespace}.tar.gz"
    instance = make({"httpSource": {"url": address}}, crdDownloadPolicy="Never")
    condition = {
        "type": "CRDsPrepared", "status": "False", "reason": "Offline", "message": "not cached",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    admin.merge(f"{instance.path}/status", {"status": {"conditions": [condition]}})
    token = create_account(admin, namespace, "operator")
    assert console.get("/crds", token)[0] == 403
    permit_section(admin, namespace, "operator", "/crds")

    def show() -> str:
        status, text = console.get("/crds", token)
        return text if status == 200 and address in text.replace("<wbr>", "") and "CRDsPrepared" in text else ""

    text = wait_for(show, what="the console knows the instance and its condition")
    assert "Offline" in text
    assert "has no entry for it" in text


def test_recorded_reviews_are_asked_again_with_the_objects_of_the_cluster(
    plane: ControlPlane, admin: Api, kubeconfig: Path, namespace: str, put: Put, tmp_path: Path
) -> None:
    records = tmp_path / "records"
    file = asyncio.run(record_workloads(records, workload(owners=[])))
    subject, bound = objects("3.0")
    del subject["metadata"]["uid"]
    uid = put(f"{OPENYURT}/yurtappsets", subject)["metadata"]["uid"]
    put(f"{OPENYURT}/yurtappoverriders", bound)
    file.write_text(file.read_text().replace(UID, uid))
    token = create_account(admin, namespace, "reviewer")
    with serving(plane, kubeconfig, tmp_path, "--records", str(records)) as console:
        assert console.get("/reviews/replay", token)[0] == 403
        permit_section(admin, namespace, "reviewer", "/reviews")
        # Reviews of kinds that the user may not get are not asked: Deployments are not among the section's.
        wait_for(lambda: console.get("/reviews", token)[0] == 200, what="the right has effect")
        assert "found 0 reviews" in console.get("/reviews/replay", token)[1]
        permit_section(admin, namespace, "reviewer", "/overriders")
        query = "/reviews/replay?verdict=patched"

        def count_changed() -> bool:
            send(console, token, f"{query}&text={uuid.uuid4()}", {})  # another search, so that the next one starts anew
            return "0 same, 1 changed" in console.get(query, token)[1]

        wait_for(count_changed, what="the console knows the overrider, and the user may get Deployments")
        text = console.get(query, token)[1]
        assert "nginx:3.0" in text
        assert "All asked: 1 review." in text
