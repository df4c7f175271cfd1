import json
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

from app.cli import app
from app.cli.rest_mapping import resource_of
from app.dispatch.assembly import offline_dispatcher
from app.dispatch.call import Deadline
from app.dispatch.explain import Explanation
from app.model.gvk import GroupVersionKind, GroupVersionResource, parse_api_version
from tests.dispatch.builders import (
    WIDGETS,
    binding,
    configuration,
    definition,
    export,
    in_cluster,
    namespace,
    request_of,
    review,
    store_of,
    webhook,
    widget,
    workspace,
)
from tests.serving import EXAMPLES

RUNNER = CliRunner()
Written = Callable[..., str]
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/*"], "operations": ["*"]}
DEPLOYMENTS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/*"], "operations": ["*"]}
EXAMPLE = ("-f", str(EXAMPLES / "kcp-widgets" / "testdata" / "widget.yaml"), "--manifests", str(EXAMPLES))


def explain(*arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, ["explain", *arguments], input=stdin)
    return result.exit_code, result.stdout, result.stderr


def explained(*arguments: str, stdin: str | None = None) -> dict[str, Any]:
    code, out, err = explain(*arguments, "--output", "json", stdin=stdin)
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(name: str, *documents: Any) -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump_all(documents))
        return str(path)

    return write


def provided(*webhooks: dict[str, Any], phase: str = "validating") -> list[dict[str, Any]]:
    return [
        binding("c", "p", "widgets.example.org"),
        export("p", "widgets.example.org"),
        configuration("p", phase, *webhooks),
    ]


def test_the_example_is_told_owner_first_then_webhooks_then_what_is_shadowed() -> None:
    code, out, err = explain(*EXAMPLE, "--operation", "CREATE", "--cluster", "ws3")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "CREATE of widgets.example.org, Widget default/b, in ws3",
        "owner: ws1 (bound)",
        "  APIBinding widgets of ws3 (Bound) has widgets.example.org",
        "  it binds APIExport widgets of ws1 (root:ws1), so the schema is owned there",
        "mutating:",
        "  call   widgets/label.widgets.example.org/0  every question is answered with yes",
        "validating:",
        "  call   widgets/size.widgets.example.org/0  every question is answered with yes",
        "  skip   widgets/scale.widgets.example.org/0  rules: no rule is about CREATE of example.org/v1 widgets in namespace default",
        "         nearest miss: rules[0] would match if 'CREATE' were in operations ['UPDATE']",
        "shadowed, because the schema is not the cluster's own:",
        "  validating: my-own-rules/mine.widgets.example.org/0",
    ]


def test_one_phase_leaves_the_other_out() -> None:
    _, out, _ = explain(*EXAMPLE, "--cluster", "ws3", "--phase", "mutating")
    assert "validating" not in out
    assert "label.widgets.example.org" in out
    found = explained(*EXAMPLE, "--cluster", "ws3", "--phase", "validating")
    assert (found["mutating"], len(found["validating"]), len(found["shadowed"])) == ([], 2, 1)


def test_verbose_shows_the_answers_of_those_that_are_called() -> None:
    quiet, verbose = (explain(*EXAMPLE, "--cluster", "ws2", *flags)[1] for flags in ((), ("--verbose",)))
    assert "objectSelector" not in quiet
    assert verbose.count("yes objectSelector: it selects everything") == 3


def test_json_is_what_the_server_answers(written: Written) -> None:
    code, out, _ = explain(*EXAMPLE, "--cluster", "ws3", "--output", "json")
    found = msgspec.json.decode(out, type=Explanation)
    assert code == 0
    assert found.owner.cluster == "ws1"
    assert [(one.uid, one.decision) for one in found.validating] == [
        ("widgets/size.widgets.example.org/0", "call"),
        ("widgets/scale.widgets.example.org/0", "skip"),
    ]


def test_several_objects_are_one_json_document_after_the_other(written: Written) -> None:
    both = written("two.yaml", widget("one"), widget("two"))
    _, out, _ = explain("-f", both, "--cluster", "c", "--manifests", written("m/m.yaml", *provided()), "-o", "json")
    first, end = json.JSONDecoder().raw_decode(out)
    assert first["resource"] == json.loads(out[end:])["resource"] == "widgets.example.org"


def test_a_review_is_asked_as_it_stands_and_options_go_before_it(written: Written) -> None:
    condition = {"name": "who", "expression": "request.userInfo.username == 'bob' && request.operation == 'UPDATE'"}
    manifests = written("m/m.yaml", *provided(webhook(matchConditions=[condition])))
    asked = ("-f", "-", "--cluster", "c", "--manifests", manifests)
    made = json.dumps(review(widget()))
    plain = explained(*asked, stdin=made)
    other = explained(*asked, "--operation", "UPDATE", "--user", "bob", stdin=made)
    assert (plain["operation"], plain["validating"][0]["decision"]) == ("CREATE", "skip")
    assert (other["operation"], other["validating"][0]["decision"]) == ("UPDATE", "call")


def test_all_of_a_review_can_be_said_differently(written: Written) -> None:
    expression = "request.dryRun && request.options.kind == 'UpdateOptions' && oldObject.spec.size == 1"
    hook = webhook(matchConditions=[{"name": "a", "expression": expression}], rules=[{**WIDGETS, "resources": ["*/*"]}])
    asked = ("-f", "-", "--cluster", "c", "--manifests", written("m/m.yaml", *provided(hook)))
    options = (
        "--dry-run",
        "--operation",
        "UPDATE",
        "--subresource",
        "status",
        "--old",
        written("o.yaml", widget(size=1)),
    )
    found = explained(*asked, *options, stdin=json.dumps(review(widget(size=2))))
    assert (found["resource"], found["operation"]) == ("widgets.example.org/status", "UPDATE")
    assert found["validating"][0]["decision"] == "call", found["validating"][0]["reason"]


@pytest.mark.parametrize(
    ("operation", "expression"),
    [
        ("CREATE", "object.spec.size == 1 && oldObject == null"),
        ("UPDATE", "object.spec.size == 1 && oldObject.spec.size == 1"),
        ("DELETE", "object == null && oldObject.spec.size == 1"),
    ],
)
def test_a_manifest_is_the_object_of_a_request_as_its_operation_has_it(
    written: Written, operation: str, expression: str
) -> None:
    manifests = written("m/m.yaml", *provided(webhook(matchConditions=[{"name": "o", "expression": expression}])))
    asked = ("--manifests", manifests, "--cluster", "c", "-f", written("w.yaml", widget(size=1)))
    assert explained(*asked, "--operation", operation)["validating"][0]["decision"] == "call"


def test_the_stored_object_can_be_given(written: Written) -> None:
    grows = {"name": "grows", "expression": "object.spec.size > oldObject.spec.size"}
    manifests = written("m/m.yaml", *provided(webhook(matchConditions=[grows])))
    asked = (
        "--manifests",
        manifests,
        "--cluster",
        "c",
        "--operation",
        "UPDATE",
        "-f",
        written("w.yaml", widget(size=2)),
    )
    assert explained(*asked)["validating"][0]["decision"] == "skip"
    assert explained(*asked, "--old", written("old.yaml", widget(size=1)))["validating"][0]["decision"] == "call"


def test_who_asks_and_whether_dry_is_what_conditions_see(written: Written) -> None:
    condition = {"name": "who", "expression": "request.userInfo.groups.exists(g, g == 'devs') && request.dryRun"}
    manifests = written("m/m.yaml", *provided(webhook(matchConditions=[condition])))
    asked = ("--manifests", manifests, "--cluster", "c", "-f", written("w.yaml", widget()), "--user", "bob")
    assert explained(*asked, "--group", "ops", "--dry-run")["validating"][0]["decision"] == "skip"
    assert explained(*asked, "--group", "ops", "--group", "devs", "--dry-run")["validating"][0]["decision"] == "call"


def test_the_cluster_is_the_one_that_the_object_says(written: Written) -> None:
    manifests = written("m/m.yaml", *provided(webhook()))
    file = written("w.yaml", in_cluster("c", "example.org/v1", "Widget", "b"))
    assert explained("-f", file, "--manifests", manifests)["cluster"] == "c"


def test_a_cluster_can_be_given_by_its_path(written: Written) -> None:
    manifests = written("m/m.yaml", *provided(webhook()), workspace("root", "consumer", "c"))
    found = explained("-f", written("w.yaml", widget()), "--manifests", manifests, "--cluster", "root:consumer")
    assert (found["cluster"], found["owner"]["cluster"]) == ("c", "p")


def test_a_cluster_of_which_nothing_is_known_is_told(written: Written) -> None:
    arguments = (
        "-f",
        written("w.yaml", widget()),
        "--manifests",
        written("m/m.yaml", definition("", "widgets.example.org", "v1")),
    )
    code, out, err = explain(*arguments, "--cluster", "elsewhere")
    assert (code, out.splitlines()[0]) == (1, "CREATE of widgets.example.org, Widget default/b, in elsewhere")
    assert "nothing is known of logical cluster elsewhere" in out
    assert "note: the manifests have nothing of elsewhere\n" in err


def test_without_a_cluster_it_says_what_to_give(written: Written) -> None:
    file = written("w.yaml", widget())
    code, out, err = explain("-f", file, "--manifests", written("m/m.yaml", *provided()))
    assert (code, out) == (2, "")
    assert err == (
        f"fleethook: {file}:1: which logical cluster is it in? Give --cluster ('' for a plain cluster), "
        "or the object the annotation kcp.io/cluster\n"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--cluster", "c"), "give objects with -f, or --all"),
        (("--all", "-f", "-"), "give objects with -f, or --all"),
        (("-f", "-", "--cluster", "*"), "--cluster: '*' is not the name or the path of a logical cluster"),
        (("-f", "missing.yaml", "--cluster", "c"), "No such file or directory"),
    ],
)
def test_usage_errors_exit_2(written: Written, arguments: tuple[str, ...], text: str) -> None:
    code, out, err = explain("--manifests", written("m/m.yaml", *provided()), *arguments)
    assert (code, out) == (2, "")
    assert text in err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("just text", "apiVersion and kind are required"),
        ("{apiVersion: v1, kind: Pod}", "metadata is required"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: 7}}", "name and namespace must be text"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: [b]}}", "request.object.metadata.annotations is not an object"),
        ("{apiVersion: admission.k8s.io/v1, kind: AdmissionReview}", "the AdmissionReview has no request"),
        ("{apiVersion: admission.k8s.io/v1, kind: AdmissionReview, request: {uid: u, operation: EAT}}", "cannot be read"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: [}}", "-:"),
    ],
)  # fmt: skip
def test_what_is_no_object_exits_2(written: Written, text: str, problem: str) -> None:
    manifests = written("m/m.yaml", *provided())
    code, out, err = explain("-f", "-", "--cluster", "c", "--manifests", manifests, stdin=text)
    assert (code, out) == (2, "")
    assert problem in err or err.startswith("fleethook: <stdin>:")


def test_without_an_owner_the_request_is_refused_and_it_exits_1(written: Written) -> None:
    two = [binding("c", owner, "widgets.example.org", name=owner) for owner in ("p", "q")]
    asked = ("-f", written("w.yaml", widget()), "--cluster", "c", "--manifests", written("m/m.yaml", *two))
    code, out, _ = explain(*asked)
    assert code == 1
    assert out.splitlines()[1] == "owner: none (ambiguous)"
    assert "note: the request is refused: several APIBindings of c have widgets.example.org" in out
    assert explain(*asked, "--as-kcp")[0] == 0


def test_a_question_without_an_answer_exits_1_unless_it_is_of_the_other_phase(written: Written) -> None:
    hook = webhook(namespaceSelector={"matchLabels": {"a": "b"}})
    asked = ("-f", written("w.yaml", widget()), "--cluster", "c", "--manifests", written("m/m.yaml", *provided(hook)))
    code, out, _ = explain(*asked)
    assert code == 1
    assert '  error  hooks/w.example.org/0  namespaceSelector: namespaces "default" not found' in out
    assert explain(*asked, "--phase", "mutating")[0] == 0


def test_what_takes_a_conversion_webhook_is_an_error(written: Written) -> None:
    conversion = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "https://localhost/c"}, "conversionReviewVersions": ["v1"]},
    }
    made = definition("c", "widgets.example.org", "v1", "v2", conversion=conversion)
    manifests = written(
        "m/m.yaml",
        made,
        configuration("c", "validating", webhook(matchConditions=[{"name": "a", "expression": "true"}])),
    )
    code, out, _ = explain("-f", written("w.yaml", widget(version="v2")), "--cluster", "c", "--manifests", manifests)
    assert code == 1
    assert "through a conversion webhook, which is not asked here" in out


def test_without_a_webhook_it_is_converted(written: Written) -> None:
    condition = {"name": "version", "expression": "object.apiVersion == 'example.org/v1'"}
    made = definition("c", "widgets.example.org", "v1", "v2")
    manifests = written("m/m.yaml", made, configuration("c", "validating", webhook(matchConditions=[condition])))
    found = explained("-f", written("w.yaml", widget(version="v2")), "--cluster", "c", "--manifests", manifests)
    assert found["validating"][0]["decision"] == "call"
    assert found["validating"][0]["sentAs"] == "example.org/v1, Kind=Widget"


def test_all_objects_are_a_table_and_configuration_is_none_of_them(written: Written) -> None:
    object_ = in_cluster("c", "example.org/v1", "Widget", "b")
    code, out, err = explain("--all", "--manifests", written("m/m.yaml", *provided(webhook()), object_, namespace("c")))
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "CLUSTER  OBJECT             OWNER  WEBHOOKS",
        "c        Widget b           p      hooks/w.example.org/0",
        "c        Namespace default  c      -",
    ]


def test_all_exits_1_if_one_is_refused_and_can_be_of_one_cluster(written: Written) -> None:
    two = [binding("d", owner, "widgets.example.org", name=owner) for owner in ("p", "q")]
    objects = [in_cluster(cluster, "example.org/v1", "Widget", "b") for cluster in ("c", "d")]
    asked = ("--all", "--manifests", written("m/m.yaml", *provided(webhook()), *two, *objects))
    code, out, _ = explain(*asked, "--output", "json")
    first, second = json.loads(out)
    assert code == 1
    assert (first["owner"], first["called"], first["refused"]) == ("p", ["hooks/w.example.org/0"], "")
    assert (second["owner"], second["called"]) == (None, [])
    assert second["refused"].startswith("several APIBindings of d have widgets.example.org")
    assert "none   refused: several APIBindings" in explain(*asked)[1]
    assert explain(*asked, "--cluster", "c")[0] == 0


def test_a_kind_that_nothing_defines_is_guessed_and_said(written: Written) -> None:
    policy = {"apiVersion": "x.org/v1", "kind": "Policy", "metadata": {"name": "a"}}
    code, out, err = explain(
        "-f", written("p.yaml", policy), "--cluster", "c", "--manifests", written("m/m.yaml", *provided())
    )
    assert (code, err) == (0, "note: nothing defines Policy; its resource is taken to be policies\n")
    assert out.startswith("CREATE of policies.x.org, Policy a, in c\n")


def test_the_plural_is_that_of_the_definition_or_of_the_schema_that_is_bound() -> None:
    kind = GroupVersionKind("example.org", "v1", "Widget")
    sheep = {"names": {"plural": "sheep", "kind": "Widget"}}
    bound = binding("d", "p", "sheep.example.org")
    schema = in_cluster(
        "p", "apis.kcp.io/v1alpha1", "APIResourceSchema", "v1.sheep.example.org", spec={"group": "example.org", **sheep}
    )
    store = store_of(definition("c", "sheep.example.org", "v1", **sheep), bound, schema)
    found = GroupVersionResource("example.org", "v1", "sheep")
    assert resource_of(store, cluster="c", kind=kind) == (found, True)
    assert resource_of(store, cluster="d", kind=kind) == (found, True)
    # What other groups and other clusters define is not seen.
    assert resource_of(store, cluster="c", kind=kind._replace(group="example.com"))[1] is False
    assert resource_of(store, cluster="e", kind=kind) == (found._replace(resource="widgets"), False)


def test_a_resource_that_is_bound_without_a_schema_is_known_by_its_name() -> None:
    store = store_of(binding("c", "p", "widgets.example.org"))
    kind = GroupVersionKind("example.org", "v1", "Widget")
    assert resource_of(store, cluster="c", kind=kind) == (GroupVersionResource("example.org", "v1", "widgets"), True)


def test_every_built_in_kind_has_the_resource_of_the_table() -> None:
    table = json.loads(resources.files("app.dispatch").joinpath("builtins.json").read_bytes())
    store, wrong = store_of(), []
    for entry in table:
        for api_version, kinds in entry["served"].items():
            group, version = parse_api_version(api_version)
            if "" in kinds:
                found = resource_of(store, cluster="", kind=GroupVersionKind(group, version, kinds[""]))
                if found != (GroupVersionResource(group, version, entry["resource"]), True):
                    wrong.append((api_version, entry["resource"], found))
    assert len(table) > 50
    assert wrong == []


def test_a_subresource_is_sent_as_the_kind_that_it_has(written: Written) -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"a": "b"}}}
    manifests = written(
        "m/m.yaml",
        configuration("", "validating", webhook(rules=[DEPLOYMENTS])),
        configuration("", "mutating", webhook(rules=[PODS])),
    )
    asked = ("-f", written("d.yaml", deployment), "--cluster", "", "--manifests", manifests, "--operation", "UPDATE")
    scale = explained(*asked, "--subresource", "scale")
    assert scale["resource"] == "deployments.apps/scale"
    assert scale["validating"][0]["sentAs"] == "autoscaling/v1, Kind=Scale"
    status = explained(*asked, "--subresource", "status")
    assert status["validating"][0]["sentAs"] == "apps/v1, Kind=Deployment"


def test_a_connection_is_sent_its_options(written: Written) -> None:
    condition = {
        "name": "c",
        "expression": "object.kind == 'PodExecOptions' && !has(object.metadata) && request.namespace == 'default'",
    }
    manifests = written("m/m.yaml", configuration("", "validating", webhook(rules=[PODS], matchConditions=[condition])))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    asked = ("-f", written("p.yaml", pod), "--cluster", "", "--manifests", manifests)
    found = explained(*asked, "--operation", "CONNECT", "--subresource", "exec")
    assert found["validating"][0]["decision"] == "call", found["validating"][0]["reason"]


def test_a_namespace_is_in_itself_and_what_has_no_namespace_is_in_none(written: Written) -> None:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    conditions = [
        {
            "name": "n",
            "expression": "request.kind.kind == 'Namespace' ? request.namespace == 'a' : !has(request.namespace)",
        }
    ]
    manifests = written(
        "m/m.yaml", configuration("", "validating", webhook(rules=[everything], matchConditions=conditions))
    )
    objects = [{"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}} for kind in ("Namespace", "Node", "Pod")]
    found = [
        explained("-f", "-", "--cluster", "", "--manifests", manifests, stdin=json.dumps(one))["validating"][0][
            "decision"
        ]
        for one in objects
    ]
    assert found == ["call", "call", "skip"]


def test_lists_are_taken_apart(written: Written) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [widget("one"), widget("two")]}
    manifests = written("m/m.yaml", *provided(webhook(rules=[WIDGETS])))
    _, out, _ = explain("-f", written("l.yaml", listed), "--cluster", "c", "--manifests", manifests)
    assert out.count("CREATE of widgets.example.org") == 2


def test_what_would_ask_the_authorizer_is_an_error_that_is_explained(written: Written) -> None:
    condition = {"name": "may", "expression": "authorizer.group('').resource('pods').check('get').allowed()"}
    manifests = written("m/m.yaml", *provided(webhook(matchConditions=[condition])))
    code, out, err = explain("-f", written("w.yaml", widget()), "--cluster", "c", "--manifests", manifests)
    assert code == 1
    assert "no such attribute(s): authorizer" in out
    assert err == "note: matchConditions that ask the authorizer have no answer off-line, as in kcp\n"


async def test_nobody_is_asked_offline() -> None:
    store = store_of(*provided(webhook(failurePolicy="Ignore")))
    deadline = Deadline(time.monotonic() + 30)
    dispatched = await offline_dispatcher(store).dispatch(
        request_of(review(widget())), cluster="c", phase="validating", deadline=deadline
    )
    assert dispatched.response.message == "Internal error occurred: no webhook is asked offline"
