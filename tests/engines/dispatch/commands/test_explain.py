import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.kubernetes.list_reading_and_decoding import EVERY_SHARD
from fleethook.cluster.kubernetes.watched_resources import (
    API_RESOURCE_SCHEMAS,
    APIBINDINGS,
    APIEXPORTS,
    DEFINITIONS,
    LOGICAL_CLUSTERS,
    NAMESPACES,
    VALIDATING_CONFIGURATIONS,
)
from fleethook.engines.dispatch.commands.explain import read_inputs, read_old
from tests.cli.conftest import WriteYAML
from tests.cli.explaining import EXAMPLE, explain, explain_as_json, provide_webhooks
from tests.cli.fake_cluster import Cluster
from tests.engines.dispatch.builders import (
    WIDGETS,
    binding,
    configuration,
    definition,
    export,
    in_cluster,
    logical_cluster,
    namespace,
    review,
    webhook,
    widget,
    workspace,
)

KCP_REQUESTS = yaml.safe_load((Path(__file__).parents[3] / "conformance" / "kcp_requests.yaml").read_text())


def test_a_cluster_can_be_named_by_its_path(write_yaml: WriteYAML) -> None:
    manifests = write_yaml("m/m.yaml", *provide_webhooks(webhook()), workspace("root", "consumer", "c"))
    found = explain_as_json("--request", write_yaml("w.yaml", widget()), "-f", manifests, "--cluster", "root:consumer")
    assert (found["cluster"], found["owner"]["cluster"]) == ("c", "p")
    claims = [logical_cluster("c"), logical_cluster("9zzz")]
    claims[1]["metadata"]["annotations"]["kcp.io/path"] = "root:consumer"
    manifests = write_yaml("m/m.yaml", *provide_webhooks(webhook()), workspace("root", "consumer", "c"), *claims)
    found = explain_as_json("--request", write_yaml("w.yaml", widget()), "-f", manifests, "--cluster", "root:consumer")
    assert found["cluster"] == "c", "the annotation of a tenant must not name another workspace"


def test_an_unknown_cluster_is_refused_and_noted(write_yaml: WriteYAML) -> None:
    arguments = (
        "--request",
        write_yaml("w.yaml", widget()),
        "-f",
        write_yaml("m/m.yaml", definition("", "widgets.example.org", "v1")),
    )
    code, out, err = explain(*arguments, "--cluster", "elsewhere")
    assert (code, out.splitlines()[0]) == (1, "CREATE of widgets.example.org, Widget default/b, in elsewhere")
    assert "logical cluster elsewhere is unknown" in out
    assert "note: there are no objects of elsewhere\n" in err
    _, _, err = explain(*arguments, "-f", write_yaml("m/n.yaml", namespace("c")), "--cluster", "elsewhere")
    assert "note: there are no objects of elsewhere, but of c\n" in err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--cluster", "c"), "give the object to explain: --request OBJECT"),
        (("--request", "-", "--cluster", "*"), "--cluster: '*' is not the name or the path of a logical cluster"),
        (("--request", "missing.yaml", "--cluster", "c"), "No such file or directory"),
    ],
)
def test_usage_errors_exit_2(write_yaml: WriteYAML, arguments: tuple[str, ...], text: str) -> None:
    code, out, err = explain("-f", write_yaml("m/m.yaml", *provide_webhooks()), *arguments)
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
def test_an_invalid_document_exits_2(write_yaml: WriteYAML, text: str, problem: str) -> None:
    manifests = write_yaml("m/m.yaml", *provide_webhooks())
    code, out, err = explain("--request", "-", "--cluster", "c", "-f", manifests, stdin=text)
    assert (code, out) == (2, "")
    assert problem in err or err.startswith("fleethook: <stdin>:")


def test_an_ambiguous_owner_exits_1_unless_as_kcp(write_yaml: WriteYAML) -> None:
    two = [binding("c", owner, "widgets.example.org", name=owner) for owner in ("p", "q")]
    arguments = ("--request", write_yaml("w.yaml", widget()), "--cluster", "c", "-f", write_yaml("m/m.yaml", *two))
    code, out, _ = explain(*arguments)
    assert code == 1
    assert out.splitlines()[1] == "owner: none (ambiguous)"
    assert "note: the request is refused: several APIBindings of c list widgets.example.org" in out
    assert explain(*arguments, "--as-kcp")[0] == 0


def test_a_conversion_webhook_is_not_called(write_yaml: WriteYAML) -> None:
    conversion = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "https://localhost/c"}, "conversionReviewVersions": ["v1"]},
    }
    made = definition("c", "widgets.example.org", "v1", "v2", conversion=conversion)
    manifests = write_yaml(
        "m/m.yaml",
        made,
        configuration("c", "validating", webhook(matchConditions=[{"name": "a", "expression": "true"}])),
    )
    code, out, _ = explain("--request", write_yaml("w.yaml", widget(version="v2")), "--cluster", "c", "-f", manifests)
    assert code == 1
    assert "needs a conversion webhook, which is not called here" in out


def test_the_object_of_a_plain_cluster_needs_no_option_for_the_cluster(
    cluster: tuple[Cluster, tuple[str, ...]], write_yaml: WriteYAML
) -> None:
    held, options = cluster
    held.lists = {"/api/v1/namespaces": [namespace("")]}
    code, out, err = explain("--request", write_yaml("a.yaml", widget()), *options)
    assert code == 0, err
    assert out.startswith("CREATE of widgets.example.org, Widget default/b, in the cluster\n")


@pytest.mark.parametrize("fact", KCP_REQUESTS["refused"], ids=str)
def test_a_request_that_reaches_no_webhook_is_refused(
    cluster: tuple[Cluster, tuple[str, ...]], write_yaml: WriteYAML, fact: dict[str, Any]
) -> None:
    held, options = cluster
    every = webhook(rules=[{**WIDGETS, "apiGroups": ["*"], "resources": ["*"]}])
    held.lists = {
        NAMESPACES.path: [namespace("", "default")],
        VALIDATING_CONFIGURATIONS.path: [configuration("", "validating", every)],
    }
    sent = {"apiVersion": "v1", "kind": fact["kind"], "metadata": {"name": fact.get("name", "a")}}
    call = ("--request", write_yaml("o.yaml", sent), "--operation", fact["operation"], *options)
    code, out, _ = explain(*call, *(("-n", fact["namespace"]) if "namespace" in fact else ()))
    assert (code, "hooks/w.example.org" in out, "note: the request is refused: namespace " in out) == (1, False, True)
    code, out, _ = explain(*call, *(("-n", "default") if "namespace" in fact else ("--operation", "UPDATE")))
    assert (code, "call   hooks/w.example.org" in out) == (0, True)
    # An apiserver has sent a review, whose namespace may be gone since.
    sent["metadata"]["namespace"] = fact.get("namespace", "")
    resource = {"group": "", "version": "v1", "resource": f"{fact['kind'].lower()}s"}
    made = review(sent, old=sent, operation=fact["operation"], resource=resource)
    code, out, _ = explain("--request", write_yaml("review.yaml", made), *options)
    assert (code, "call   hooks/w.example.org" in out) == (0, True)


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": 1}}, "data.k"),
        ({**widget(), "metadata": {"name": "a", "labels": {"k": 1}}}, "metadata.labels.k"),
    ],
)
def test_no_webhook_is_called_for_an_object_that_cannot_be_decoded(
    write_yaml: WriteYAML, sent: dict[str, Any], field: str
) -> None:
    """kcp and kube-apiserver answer 400: json: cannot unmarshal number into Go struct field."""
    every = webhook(rules=[{**WIDGETS, "apiGroups": ["*"], "resources": ["*"], "apiVersions": ["*"]}])
    manifests = write_yaml("m/m.yaml", configuration("", "validating", every))
    code, out, _ = explain("--request", write_yaml("w.yaml", sent), "-f", manifests)
    assert (code, f"note: the request is refused: {field}: must be a string" in out) == (1, True), out
    assert "hooks/w.example.org" not in out


STRICT = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}


@pytest.mark.parametrize(
    ("size", "options", "refused"),
    [
        (1, (), False),
        ("x", (), True),
        ("x", ("--operation", "UPDATE"), False),
        ("x", ("--operation", "DELETE"), False),
        ("x", ("--resource", "widgets.example.org/status"), False),
    ],
)
def test_no_validating_webhook_is_called_for_an_object_that_its_schema_refuses(
    write_yaml: WriteYAML, size: Any, options: tuple[str, ...], *, refused: bool
) -> None:
    version = {"name": "v1", "served": True, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": STRICT}}
    manifests = write_yaml(
        "m/m.yaml",
        definition("c", "widgets.example.org", versions=[version]),
        configuration("c", "mutating", webhook(rules=[{**WIDGETS, "operations": ["*"]}])),
        configuration("c", "validating", webhook(rules=[{**WIDGETS, "operations": ["*"], "resources": ["*/*"]}])),
    )
    call = ("--request", write_yaml("w.yaml", widget(size=size)), "--cluster", "c", "-f", manifests, *options)
    found = explain_as_json(*call, code=int(refused))
    assert [one["decision"] for one in found["validating"]] == ([] if refused else ["call"])
    assert found.get("refused", "") == ('spec.size: "x" is not of type "integer"' if refused else "")
    text = explain(*call)[1]
    note = "unless a mutating webhook corrects it, and calls no validating webhook: spec.size"
    assert (note in text) is refused


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ((), ""),
        (("--kcp",), "/clusters/p"),
        (("--kcp", "--kcp-cache-kubeconfig"), "/services/cache/shards/s/clusters/p"),
    ],
)
def test_the_schema_of_a_resource_is_read_from_its_cluster(
    cluster: tuple[Cluster, tuple[str, ...]], write_yaml: WriteYAML, options: tuple[str, ...], where: str
) -> None:
    """Sources keep the defaults of schemas only; a kcp does not list all logical clusters by a name."""
    held, kubeconfig = cluster
    is_cached = "--kcp-cache-kubeconfig" in options
    every, cached = "/clusters/*" * ("--kcp" in options), EVERY_SHARD if is_cached else "/clusters/*"
    owner, resource = ("p", API_RESOURCE_SCHEMAS) if options else ("", DEFINITIONS)
    made = definition(owner, "widgets.example.org", versions=[{"name": "v1", "served": True, "schema": STRICT}])
    if not options:
        made["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": STRICT}
    made["apiVersion"], made["kind"] = resource.api_version, resource.kind
    made["metadata"]["name"] = name = "v1.widgets.example.org" if options else "widgets.example.org"
    if is_cached:
        made["metadata"]["annotations"]["kcp.io/shard"] = "s"
    held.lists = {
        f"{every}{NAMESPACES.path}": [namespace("c" if options else "")],
        f"{every}{APIBINDINGS.path}": [binding("c", "p", "widgets.example.org")] if options else [],
        f"{cached if options else ''}{APIEXPORTS.path}": [export("p", "widgets.example.org")],
        f"{cached if options else ''}{resource.path}": [made],
        f"{where}{resource.path}": [made],
    }
    if is_cached:
        config = yaml.safe_load(Path(kubeconfig[1]).read_text())
        options = (*options, write_yaml("cache.yaml", {**config, "current-context": "right"}))
    call = ("--request", write_yaml("w.yaml", widget(size="x")), "--cluster", "c" if options else "")
    found = explain_as_json(*call, *kubeconfig, *options, code=1)
    assert found.get("refused") == 'spec.size: "x" is not of type "integer"', found
    assert held.queries[f"{where}{resource.path}"]["fieldSelector"] == f"metadata.name={name}"
    # A definition that --change changes has its own schema.
    changed = copy.deepcopy(made)
    schema = changed["spec"]["versions"][0]["schema"]
    schema.get("openAPIV3Schema", schema)["properties"] = {}
    changes = explain_as_json(*call, *kubeconfig, *options, "--change", write_yaml("d.yaml", changed), code=0)
    assert [changes[one].get("refused", "") != "" for one in ("before", "after")] == [True, False]


def test_a_cluster_with_logical_clusters_only_needs_the_option(
    cluster: tuple[Cluster, tuple[str, ...]], write_yaml: WriteYAML
) -> None:
    held, options = cluster
    held.lists = {"/api/v1/namespaces": [namespace("c")]}
    code, _, err = explain("--request", write_yaml("a.yaml", widget()), *options)
    assert code == 2
    assert "the logical cluster is unknown: add the annotation kcp.io/cluster, or give --cluster NAME" in err


@pytest.mark.parametrize("other", ["root:team", "other"])
def test_a_cluster_beside_the_only_one_that_is_read_hints_at_the_option(
    cluster: tuple[Cluster, tuple[str, ...]], write_yaml: WriteYAML, other: str
) -> None:
    held, options = cluster
    held.lists = {NAMESPACES.path: [namespace("root")], LOGICAL_CLUSTERS.path: [logical_cluster("root")]}
    code, out, _ = explain("--request", write_yaml("w.yaml", widget()), *options, "--cluster", other)
    assert code == 1
    assert "is unknown (only one workspace is read; give the kubeconfig of the other one, or --kcp)" in out
    # A workspace knows its own path.
    held.lists[LOGICAL_CLUSTERS.path][0]["metadata"]["annotations"]["kcp.io/path"] = "root:own"
    config_map = write_yaml("c.yaml", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    code, out, _ = explain("--request", config_map, *options, "-n", "default", "--cluster", "root:own")
    assert (code, "ConfigMap default/a, in root\n" in out) == (0, True), out


@pytest.mark.parametrize(
    ("bound", "code", "text"),
    [
        (
            "Bound",
            1,
            "the webhooks of p, which APIBinding widgets binds, cannot be seen with the rights of a workspace",
        ),
        ("Binding", 1, "APIBinding widgets of c is not bound yet, and may list widgets.example.org"),
        ("", 1, "c does not serve widgets.example.org: no CustomResourceDefinition or APIBinding defines it"),
    ],
)
def test_a_consumer_gets_no_answer_about_the_webhooks_of_a_provider(
    cluster: tuple[Cluster, tuple[str, ...]], write_yaml: WriteYAML, bound: str, code: int, text: str
) -> None:
    held, options = cluster
    one = binding("c", "p", "widgets.example.org")
    one["status"] = one["status"] | {"phase": bound} | ({} if bound == "Bound" else {"boundResources": []})
    held.lists = {
        "/api/v1/namespaces": [namespace("c")],
        APIBINDINGS.path: [one] if bound else [],
        LOGICAL_CLUSTERS.path: [logical_cluster("c")],
    }
    found, out, _ = explain("--request", write_yaml("a.yaml", widget()), *options)
    assert (found, text in out) == (code, True), out
    held.forbidden = ("apibindings",)
    found, _, err = explain("--request", write_yaml("a.yaml", widget()), *options)
    assert (found, "resources: [apibindings], verbs: [list]" in err) == (2, True), err


def test_a_change_shows_the_verdicts_before_and_after(write_yaml: WriteYAML) -> None:
    manifests = write_yaml("m.yaml", *provide_webhooks(webhook("a.example.org"), webhook("b.example.org")))
    change = write_yaml("change.yaml", configuration("p", "validating", webhook("b.example.org", rules=[])))
    call = ("--request", write_yaml("a.yaml", widget()), "-f", manifests, "--cluster", "c", "--change", change)
    code, out, err = explain(*call)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("  CREATE of widgets.example.org, Widget default/b")
    assert [line for line in lines if line[0] != " "] == [
        "-   call   hooks/a.example.org/0  all filters match",
        "-   call   hooks/b.example.org/0  all filters match",
        "+   skip   hooks/b.example.org/0  rules: it has no rules",
    ]
    _, out, _ = explain(*call, "-o", "json")
    found = json.loads(out)
    calls = {when: [one["decision"] for one in found[when]["validating"]] for when in ("before", "after")}
    assert calls == {"before": ["call", "call"], "after": ["skip"]}


def test_a_change_without_effect_has_no_marks(write_yaml: WriteYAML) -> None:
    manifests = write_yaml("m.yaml", *provide_webhooks(webhook()))
    change = write_yaml("change.yaml", namespace("c", "other"))
    call = ("--request", write_yaml("a.yaml", widget()), "-f", manifests, "--cluster", "c", "--change", change)
    _, out, _ = explain(*call)
    assert {line[:2] for line in out.splitlines()} == {"  "}
    found = json.loads(explain(*call, "-o", "json")[1])
    assert found["before"] == found["after"]


def test_rules_in_python_are_explained_like_webhooks(tmp_path: Path, write_yaml: WriteYAML) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text("""from fleethook.admission import validate

@validate("v1", "Pod", on="DELETE")
def keeps(pod): pass

@validate("v1", "Pod")
def all_pods(pod): pass
""")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"}}
    objects = write_yaml("n.yaml", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    request = write_yaml("p.yaml", pod)
    code, out, err = explain("-f", str(rules), "-f", objects, "--cluster", "", "--request", request, "--output", "json")
    assert code == 0, err
    found = json.loads(out)
    decisions = {one["configuration"]: (one["decision"], one["stage"]) for one in found["validating"]}
    assert decisions["keeps"] == ("skip", "rules")
    assert decisions["all-pods"][0] == "call"


def test_a_manifest_is_explained_with_the_defaults_of_its_kind(write_yaml: WriteYAML) -> None:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["services", "namespaces"], "operations": ["*"]}]
    asked = {
        "default": "object.kind != 'Service' || object.spec.type == 'ClusterIP'",
        "named": "has(request.name) && request.name.startsWith('s-')",
        "collected": "request.operation == 'DELETE' && !has(request.name)",
    }
    hooks = [
        webhook(f"{name}.example.org", rules=rules, matchConditions=[{"name": "a", "expression": text}])
        for name, text in asked.items()
    ]
    both = [configuration("", phase, *hooks, name=phase) for phase in ("mutating", "validating")]
    options = ("-f", write_yaml("m/m.yaml", *both), "--cluster", "", "-o", "json")
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"generateName": "s-"}, "spec": {}}

    def find_called(*arguments: str) -> list[str]:
        _, out, _ = explain("--request", write_yaml("o.yaml", service), *arguments, *options)
        found = json.loads(out)
        return [one["uid"] for one in (*found["mutating"], *found["validating"]) if one["decision"] == "call"]

    assert find_called() == [
        "mutating/default.example.org/0",
        "validating/default.example.org/0",
        "validating/named.example.org/0",
    ]
    assert find_called("--operation", "DELETECOLLECTION") == [
        "mutating/collected.example.org/0",
        "validating/collected.example.org/0",
    ]


def test_a_condition_about_an_unknown_default_exits_with_1(write_yaml: WriteYAML) -> None:
    hook = webhook(matchConditions=[{"name": "a", "expression": "object.spec.size == 3"}])
    manifests = write_yaml("m/m.yaml", configuration("", "validating", hook))
    code, out, _ = explain("--request", write_yaml("w.yaml", widget()), "-f", manifests, "--cluster", "")
    assert code == 1
    assert "  unknown hooks/w.example.org/0  matchConditions: kube-apiserver may set spec.size before it asks" in out


def test_text_shows_the_owner_then_the_webhooks_then_shadowed_webhooks() -> None:
    code, out, err = explain(*EXAMPLE, "--operation", "CREATE", "--cluster", "ws3")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "CREATE of widgets.example.org, Widget default/b, in ws3",
        "owner: ws1 (bound)",
        "  APIBinding widgets of ws3 (Bound) lists widgets.example.org",
        "  it binds APIExport widgets of ws1 (root:ws1), which owns the schema",
        "mutating:",
        "  call   widgets/label.widgets.example.org/0  all filters match",
        "validating:",
        "  call   widgets/size.widgets.example.org/0  all filters match",
        "  skip   widgets/scale.widgets.example.org/0  rules: no rule matches CREATE of example.org/v1 widgets in namespace default",
        "         nearest miss: rules[0] would match if 'CREATE' were in operations ['UPDATE'], but then matchConditions would fail",
        "shadowed, because the schema is not the cluster's own:",
        "  validating: my-own-rules/mine.widgets.example.org/0",
    ]


def test_verbose_shows_the_checks_of_called_webhooks() -> None:
    quiet, verbose = (explain(*EXAMPLE, "--cluster", "ws2", *flags)[1] for flags in ((), ("--verbose",)))
    assert "objectSelector" not in quiet
    assert verbose.count("yes objectSelector: it selects everything") == 3


def test_json_has_one_document_for_each_object(write_yaml: WriteYAML) -> None:
    both = write_yaml("two.yaml", widget("one"), widget("two"))
    _, out, _ = explain(
        "--request", both, "--cluster", "c", "-f", write_yaml("m/m.yaml", *provide_webhooks()), "-o", "json"
    )
    first, end = json.JSONDecoder().raw_decode(out)
    assert first["resource"] == json.loads(out[end:])["resource"] == "widgets.example.org"


def test_an_object_keeps_its_place_and_its_own_cluster(write_yaml: WriteYAML) -> None:
    path = Path(write_yaml("w.yaml", widget("a"), in_cluster("ws1", "v1", "ConfigMap", "b")))
    first, second = read_inputs(path, None)
    assert (first.place, first.cluster) == (f"{path}:1", None)
    assert int(second.place.removeprefix(f"{path}:")) > 1
    assert second.cluster == "ws1"
    assert [one.cluster for one in read_inputs(path, "ws9")] == ["ws9", "ws9"]


def test_an_object_without_a_name_is_an_input(write_yaml: WriteYAML) -> None:
    (found,) = read_inputs(Path(write_yaml("w.yaml", {"apiVersion": "v1", "kind": "Pod", "metadata": {}})), None)
    assert found.document["kind"] == "Pod"


def test_the_old_object_is_the_only_one_of_its_file(write_yaml: WriteYAML, capsys: pytest.CaptureFixture[str]) -> None:
    assert read_old(Path(write_yaml("one.yaml", widget("a"))))["metadata"]["name"] == "a"
    for path, count in ((write_yaml("none.yaml"), 0), (write_yaml("two.yaml", widget("a"), widget("b")), 2)):
        with pytest.raises(SystemExit):
            read_old(Path(path))
        assert f"{path} holds {count} objects, expected one" in capsys.readouterr().err
