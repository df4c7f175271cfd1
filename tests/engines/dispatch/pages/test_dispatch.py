import json
from dataclasses import replace
from pathlib import Path

import pytest

from fleethook.cluster.manifests.manifest_files import read_documents
from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.cluster.store import ObjectKey, Store
from fleethook.console.console_server import create_console
from fleethook.console.context import MUTATING
from fleethook.engines.dispatch.pages.dispatch import LINTED, find_all, make_state, object_url
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import INDEXES
from tests.cli.commands import invoke
from tests.console.pages.reading import HOSTILE, get, read, submit
from tests.console.visits import console_of, make_context, send_form, visit
from tests.engines.dispatch.builders import (
    binding,
    configuration,
    export,
    in_cluster,
    namespace,
    store_of,
    webhook,
    widget,
)
from tests.serving import EXAMPLES


async def test_the_values_follow_the_store() -> None:
    store = make_context(binding("c", "p", "widgets.example.org")).store
    state = make_state(store)
    assert "never-called" not in {one.code for one in (await state.findings.get()).value or ()}
    store.put(configuration("p", "mutating", webhook(rules=[])))
    assert "never-called" in {one.code for one in (await state.findings.get()).value or ()}


NEAR = webhook("near.example.org", matchConditions=[{"name": "grows", "expression": "object.spec.size > 1"}])
FLEET = (
    binding("c", "p", "widgets.example.org"),
    export("p", "widgets.example.org"),
    configuration("p", "validating", webhook("called.example.org"), NEAR),
    configuration("p", "mutating", webhook(rules=[]), name="empty"),
)
OBJECT = json.dumps(widget(size=1))


async def test_a_pasted_object_gets_the_verdict_tree() -> None:
    status, page = await submit(console_of(*FLEET), "/dispatch", {"document": OBJECT, "cluster": "c"})
    assert status == 200
    assert "CREATE of widgets.example.org" in page.text
    assert "call hooks/called.example.org/0" in page.text
    assert "skip hooks/near.example.org/0" in page.text
    assert page.text.index("hooks/called") < page.text.index("hooks/near")


async def test_the_address_of_a_chosen_object_has_all_parameters_and_the_command() -> None:
    app = console_of(*FLEET, command_source="-f examples")
    query = "choice=p/apis.kcp.io/APIExport//widgets&operation=UPDATE&user=ada%20l&dry_run=true"
    page = await get(app, "/dispatch", query)
    assert "UPDATE of apiexports.apis.kcp.io" in page.text
    command = (
        "fleethook explain --request object.yaml --cluster p --operation UPDATE --user 'ada l' --dry-run -f examples"
    )
    assert command in page.text


async def test_a_field_that_cannot_be_used_is_an_error_beside_it() -> None:
    status, page = await submit(console_of(), "/dispatch", {"document": "a: [", "cluster": "c"})
    assert status == 422
    assert "Line 2:" in page.text
    status, page = await submit(console_of(), "/dispatch", {"document": OBJECT, "cluster": "*"})
    assert (status, "'*' is not the name or the path of a logical cluster" in page.text) == (422, True)


async def test_a_secret_is_never_shown() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "aHVudGVyMg=="}}
    app = console_of(secret)
    assert "Secret" not in (await get(app, "/dispatch")).text
    for path in ("/dispatch", "/dispatch/object"):
        answer = await visit(app, path, query="choice=//Secret//s")
        assert answer.status == 404
        assert b"aHVudGVyMg" not in answer.body


async def test_a_form_of_another_origin_is_refused() -> None:
    fields = {"document": OBJECT, "cluster": "c"}
    assert (await send_form(console_of(*FLEET), "/dispatch", fields, origin="http://evil.example")).status == 403


EMPTY = object_url(ObjectKey("p", MUTATING, "", "empty")).partition("?")[2]


async def test_an_object_has_its_findings() -> None:
    page = await get(console_of(*FLEET), "/dispatch/object", EMPTY)
    assert "MutatingWebhookConfiguration empty" in page.text
    assert "error [never-called]: " in page.text


async def test_findings_follow_the_store() -> None:
    app = console_of(*FLEET)
    assert "never-called" in (await get(app, "/dispatch/object", EMPTY)).text
    # RequestGuard wraps the application.
    store = app._app.state.context.store
    store.put(configuration("p", "mutating", webhook(), name="empty"))
    assert "never-called" not in (await get(app, "/dispatch/object", EMPTY)).text


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_texts_stay_texts(text: str) -> None:
    hook = {**webhook(text), "failurePolicy": text}
    fleet = (
        *FLEET,
        configuration("p", "validating", hook, name=text),
        {
            **binding("c", "p", "widgets.example.org"),
            "metadata": {"name": text, "annotations": {"kcp.io/cluster": "c"}},
        },
        in_cluster(
            text, "apis.kcp.io/v1alpha2", "APIExport", text, spec={"resources": [{"name": text, "group": text}]}
        ),
    )
    app = console_of(*fleet)
    for path in ("/dispatch",):
        await get(app, path)
        for name in ("q", "focus", "code", "cluster", "level", "operation", "user"):
            read(
                await visit(
                    app,
                    path,
                    query=f"{name}={json.dumps(text)}".replace(" ", "+")
                    .replace("&", "%26")
                    .encode("ascii", "xmlcharrefreplace")
                    .decode(),
                )
            )
    fields = dict.fromkeys(("document", "old", "cluster", "user", "groups", "resource", "operation"), text)
    await submit(app, "/dispatch", fields)
    named = json.dumps({**widget(), "metadata": {"name": text, "labels": {text: text}}})
    assert (await submit(app, "/dispatch", {"document": named, "cluster": "c", "user": text}))[0] == 200


RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
FLEET_OF_FOUND = (
    configuration("p", "mutating", webhook(rules=[]), name="empty"),
    binding("a b&c", "p", "widgets.example.org"),
)


def test_findings_are_those_of_the_command() -> None:
    store = Store(INDEXES)
    for path in sorted((EXAMPLES / "kcp-widgets").glob("*.yaml")):
        for document in read_documents(path.read_text(), source=str(path)):
            store.put(document.object)
    # The page lints a copy in a thread.
    store = store.copy(LINTED)
    found = [(one.level, one.code, one.configuration, one.webhook, one.text) for one in find_all(store)]
    result = invoke(["lint", "-f", str(EXAMPLES / "kcp-widgets"), "--output", "json"])
    expected = [
        (one["level"], one["code"], one["name"], one["webhook"], one["text"]) for one in json.loads(result.stdout)
    ]
    assert found == expected
    assert found


def test_a_copy_of_the_linted_kinds_has_the_findings_of_the_store() -> None:
    """A cluster with other objects only is known, and the labels of Namespaces count."""
    hook = webhook(clientConfig={"service": {"namespace": "hooks", "name": "h"}})
    documents = (
        *FLEET_OF_FOUND,
        configuration("", "validating", {**hook, "rules": [{**RULE, "resources": ["pods"]}]}),
        namespace("", "hooks"),
        {**widget(), "metadata": {"name": "w", "annotations": {"kcp.io/cluster": "p2"}}},
        binding("d", "p2", "widgets.example.org"),
    )
    store = store_of(*documents)
    found = find_all(store)
    assert find_all(store.copy(LINTED)) == found
    assert "self-lockout" in {one.code for one in found}
    assert "binding-owner" not in {one.code for one in found if one.cluster == "d"}


async def test_rules_in_python_have_their_place_and_a_link_to_their_page(tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(
        "from fleethook.admission import validate\n\n"
        '@validate("v1", "Pod")\ndef named(pod):\n    """Pods have\n    a name."""\n'
    )
    context = make_context()
    source = ManifestSource([rules], context.store)
    source.load()
    app = create_console(replace(context, manifests=source))
    choice = "choice=/admissionregistration.k8s.io/ValidatingWebhookConfiguration//named"
    page = await get(app, "/dispatch/object", choice)
    assert f"{rules}:3" in page.text
    assert "Pods have a name." in page.text
    assert "/rules/rule?path=%2Frules%2Fvalidate%2Fnamed" in page.addresses
    rules.write_text("broken(")
    source.load()
    assert source.errors[str(rules)].startswith(f"{rules}:1: SyntaxError")
    assert (await get(app, "/dispatch/object", choice)).text
