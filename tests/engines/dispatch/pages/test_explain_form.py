"""The form answers as `fleethook explain` does."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from fleethook.cluster.manifests.manifest_files import read_documents
from fleethook.cluster.store import Store, key_of
from fleethook.console.forms_and_guard import FormFieldError
from fleethook.engines.dispatch.offline_dispatcher_and_replay import build_offline_dispatcher
from fleethook.engines.dispatch.pages.explain_form import (
    MAX_CHOICES,
    MAX_TEXT,
    RequestForm,
    VerdictTree,
    explain_form,
    format_object,
    list_choices,
    plan_form,
    read_choice,
)
from fleethook.engines.dispatch.request_from_manifest import RequestOperation
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import INDEXES
from tests.cli.explaining import explain, provide_webhooks
from tests.engines.dispatch.builders import binding, configuration, review, store_of, webhook, widget
from tests.serving import EXAMPLES

WIDGETS = EXAMPLES / "kcp-widgets"
WIDGET = (WIDGETS / "testdata" / "widget.yaml").read_text()


async def explain_in(store: Store, form: RequestForm) -> VerdictTree:
    return await explain_form(store, build_offline_dispatcher(store), form)


def store_of_examples() -> Store:
    store = Store(INDEXES)
    for path in sorted(WIDGETS.glob("*.yaml")):
        for document in read_documents(path.read_text(), source=str(path)):
            store.put(document.object)
    return store


@pytest.mark.parametrize("operation", list(RequestOperation))
@pytest.mark.parametrize("cluster", ["ws1", "ws2", "ws3", "root:ws1", "nowhere", ""])
def test_the_form_gives_the_explanation_of_the_command_for_the_examples(
    operation: RequestOperation, cluster: str
) -> None:
    form = RequestForm(WIDGET, cluster, operation.value, user="ada", groups="dev, ops")
    tree = asyncio.run(explain_in(store_of_examples(), form))
    arguments = ["--request", str(WIDGETS / "testdata" / "widget.yaml"), "-f", str(WIDGETS), "--user", "ada"]
    arguments += ["--group", "dev", "--group", "ops", "--operation", operation.value, "--cluster", cluster]
    _, out, _ = explain(*arguments, "--output", "json")
    assert json.loads(msgspec.json.encode(tree.explanation)) == json.loads(out)


@pytest.mark.parametrize(
    ("document", "operation", "reason"),
    [
        (
            "{apiVersion: v1, kind: Namespace, metadata: {name: default}}",
            "DELETE",
            "namespace default may not be deleted",
        ),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: [a]}", "CREATE", "data: "),
    ],
)
async def test_the_form_refuses_what_an_apiserver_refuses_before_webhooks(
    document: str, operation: str, reason: str
) -> None:
    every = webhook(rules=[{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}])
    tree = await explain_in(store_of(configuration("a", "validating", every)), RequestForm(document, "a", operation))
    assert tree.explanation.refused.startswith(reason)
    assert not tree.explanation.mutating
    assert not tree.explanation.validating


async def explain_widget(*webhooks: dict[str, Any], **members: Any) -> VerdictTree:
    form = RequestForm(json.dumps(widget(size=1)), "c", **members)
    return await explain_in(store_of(*provide_webhooks(*webhooks)), form)


async def test_the_user_and_the_stored_object_reach_conditions() -> None:
    expression = "request.userInfo.username == 'ada' && 'ops' in request.userInfo.groups && oldObject.spec.size == 3"
    hook = webhook(matchConditions=[{"name": "who", "expression": expression}])
    old = json.dumps(widget(size=3))
    rest = {"operation": "UPDATE", "user": "ada", "groups": "dev, ops"}
    assert (await explain_widget(hook, **rest, old=old)).explanation.validating[0].decision == "call"
    assert (await explain_widget(hook, **rest)).explanation.validating[0].decision == "skip"


async def test_a_cluster_scoped_object_is_named_without_a_namespace() -> None:
    document = format_object({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    assert (await explain_in(store_of(), RequestForm(document, "c"))).subject == "Namespace default"


async def test_a_review_can_be_pasted() -> None:
    made = json.dumps(review(widget(size=1)))
    tree = await explain_in(store_of(*provide_webhooks(webhook())), RequestForm(made, "c"))
    assert tree.explanation.validating[0].decision == "call"


async def test_guesses_and_unknown_clusters_are_noted() -> None:
    form = RequestForm(json.dumps(widget()), "c")
    notes = (await explain_in(store_of(), form)).notes
    assert "no CRD or APIBinding defines Widget; assuming resource widgets" in notes
    assert "there are no objects of c" in notes


@pytest.mark.parametrize(
    ("form", "field", "line", "text"),
    [
        (RequestForm(), "document", 0, "paste an object"),
        (RequestForm("a: [", "c"), "document", 2, ""),
        (RequestForm("kind: Pod\napiVersion: v1\n---\nkind: Pod", "c"), "document", 0, "2 documents, expected one"),
        (RequestForm("- 1", "c"), "document", 1, "apiVersion and kind are required"),
        (RequestForm("x" * (MAX_TEXT + 1), "c"), "document", 0, "more than 1024 KiB"),
        (RequestForm(WIDGET, "*"), "cluster", 0, "not the name or the path"),
        (RequestForm(WIDGET, "<script>"), "cluster", 0, "not the name or the path"),
        (RequestForm(WIDGET, "c", "PATCH"), "operation", 0, "use one of CREATE, UPDATE, DELETE, CONNECT"),
        (RequestForm(WIDGET, "c", old="{"), "old", 2, ""),
        (RequestForm(json.dumps({**review(), "request": {"uid": 1}}), "c"), "document", 0, ""),
    ],
)
async def test_a_field_that_cannot_be_used_is_named(form: RequestForm, field: str, line: int, text: str) -> None:
    with pytest.raises(FormFieldError) as caught:
        await explain_in(store_of(), form)
    error = caught.value.error
    assert (error.field, error.line) == (field, line)
    assert text in error.text
    assert error.text


def test_the_object_names_the_cluster_unless_the_form_does() -> None:
    annotated = {**widget(), "metadata": {"name": "b", "annotations": {"kcp.io/cluster": "ws9"}}}
    text = json.dumps(annotated)
    assert plan_form(store_of(), RequestForm(text)).cluster == "ws9"
    assert plan_form(store_of(), RequestForm(text, "ws1")).cluster == "ws1"
    assert plan_form(store_of(), RequestForm(json.dumps(widget()))).cluster == ""


def test_the_form_offers_objects_but_no_secrets() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "eA=="}}
    store = store_of(secret, binding("c", "p", "widgets.example.org"), configuration("p", "mutating"))
    kinds = store.counts()
    assert [one.title for one in list_choices(store, kinds)] == [
        "MutatingWebhookConfiguration.admissionregistration.k8s.io hooks in p",
        "APIBinding.apis.kcp.io widgets in c",
    ]
    found = list_choices(store, kinds, text="APIBINDING")
    assert [read_choice(one.value) for one in found] == [key_of(binding("c", "p", "widgets.example.org"))]
    assert list_choices(store, []) == []


@pytest.mark.parametrize("text", ["", "a/b", "//Secret/default/s", "a/b/c/d/e/f", "<script>"])
def test_a_text_that_is_no_key_or_one_of_a_secret_chooses_nothing(text: str) -> None:
    assert read_choice(text) is None


def test_a_chosen_object_is_explained_like_a_pasted_one() -> None:
    text = format_object({**widget(), "metadata": {"name": "b", "namespace": "x", "managedFields": [{"manager": "k"}]}})
    assert "managedFields" not in text
    planned = plan_form(store_of(), RequestForm(text, "c"))
    assert (planned.request.name, planned.request.kind.kind) == ("b", "Widget")


def test_the_offered_objects_are_limited() -> None:
    store = store_of(*(widget(f"w{number}") for number in range(MAX_CHOICES + 5)))
    assert len(list_choices(store, store.counts())) == MAX_CHOICES
