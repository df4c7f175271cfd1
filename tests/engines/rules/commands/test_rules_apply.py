"""``fleethook rules apply`` on files and on a cluster.

Its verdict about an object is that of review(), of `rules test` and of a server.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fleethook.admission.decorators_and_files import load_rules
from fleethook.admission.rule_in_tests import Rule, build_request
from fleethook.cli.options import InputOptions, Output
from fleethook.cli.trial_report import Trial, TrialReport
from fleethook.cluster.registration.paths import build_rule_path
from fleethook.engines.rules.commands.rules_apply import RuleTrials
from fleethook.engines.rules.rule_fixtures import RuleFixture, run_rule_fixture
from fleethook.workload_schema.admission_objects import show_request
from tests.cli.commands import Result, invoke
from tests.cli.fake_cluster import Cluster, serve_cluster
from tests.engines.rules.test_rules_server import ask, serving

RULES = """
from fleethook.admission import Denied, mutate, validate

@validate("v1", "Pod", templates=True)
def fixed_tag(pod):
    for index, one in enumerate(pod.spec.containers):
        if one.image.endswith(":latest"):
            raise Denied("use a fixed tag", field=f"spec.containers[{index}].image")

@mutate("v1", "Pod")
def adds_owner(pod):
    pod.metadata.setdefault("labels", {}).setdefault("owner", "ann")

@validate("v1", "Pod")
def needs_owner(request):
    if "owner" not in request.labels:
        raise Denied("label `owner` is missing", field="metadata.labels")
"""
WORKLOAD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx:latest
"""
PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: data}
spec:
  containers:
  - {name: db, image: "db:1"}
---
apiVersion: v1
kind: Pod
metadata: {name: dns, namespace: kube-system}
spec: {containers: [{name: dns, image: "dns:latest"}]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules.py").write_text(RULES)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "web.yaml").write_text(f"{WORKLOAD}---\n{PODS}")
    return tmp_path


def run(folder: Path, *words: str | Path, rules: str = "") -> Result:
    if rules:
        (folder / "rules.py").write_text(f"from fleethook.admission import Denied, mutate, validate\n{rules}")
    return invoke(["rules", "apply", str(folder / "rules.py"), *map(str, words)])


def test_refusals_have_rule_object_field_and_line_and_changes_both_values(folder: Path) -> None:
    result = run(folder, "-f", folder / "m")
    file = folder / "m" / "web.yaml"
    assert result.stdout.splitlines() == [
        "refused  Deployment default/web, fixed-tag (rules.py:4)",
        f"         {file}:11: spec.template.spec.containers[0].image: use a fixed tag",
        "changed  Pod data/db, adds-owner (rules.py:10)",
        "         /metadata/labels",
        '           + {"owner": "ann"}',
        "fixed-tag (rules.py:4): 1 allowed, 1 refused, 1 not sent",
        "adds-owner (rules.py:10): 1 changed, 1 not sent",
        # It gets the label of the rule before it.
        "needs-owner (rules.py:14): 1 allowed, 1 not sent",
    ]
    assert (result.exit_code, result.stderr) == (1, "")
    # As for kubectl, a Deployment without a namespace is in that of -n.
    within = run(folder, "-f", folder / "m", "-n", "data").stdout
    assert ("refused  Deployment data/web" in within, within.splitlines()[-1]) == (
        True, "needs-owner (rules.py:14): 1 allowed",
    )  # fmt: skip
    file.write_text(PODS)
    assert run(folder, "-f", folder / "m").exit_code == 0
    file.write_text(WORKLOAD.replace("name: web}", "generateName: web-}"))
    assert "refused  Deployment default/web-" in run(folder, "-f", folder / "m").stdout


def test_other_programs_get_the_same_results(folder: Path) -> None:
    file = folder / "m" / "web.yaml"
    found = {one: run(folder, "-f", folder / "m", "-o", one) for one in ("json", "github", "junit")}
    assert {one.exit_code for one in found.values()} == {1}
    refused, changed = json.loads(found["json"].stdout)["results"]
    assert refused == {
        "kind": "Deployment", "namespace": "default", "name": "web", "rule": "fixed-tag",
        "ruleAt": f"{folder / 'rules.py'}:4", "outcome": "refused",
        "message": "spec.template.spec.containers[0].image: use a fixed tag",
        "field": "spec.template.spec.containers[0].image", "place": f"{file}:11",
    }  # fmt: skip
    assert (changed["rule"], changed["patch"][0]["path"]) == ("adds-owner", "/metadata/labels")
    assert found["github"].stdout == (
        f"::error file={file},line=11,title=refused::Deployment default/web, fixed-tag (rules.py:4): "
        "spec.template.spec.containers[0].image: use a fixed tag\n"
    )
    suite = ET.fromstring(found["junit"].stdout)
    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")


def test_a_broken_rule_fails_and_a_hint_tells_why_another_is_never_asked(folder: Path) -> None:
    rules = """
@validate("v1", "Pod", failure_policy="Ignore", name="breaks")
def breaks(pod):
    pod.spec.no

@mutate("v1", "Pod")
def invalid(pod):
    pod.spec["dnsPolicy"] = 1

@validate("v1", "Pod")
def changes(pod, warnings):
    warnings.append("careful")
    pod.metadata["labels"] = {}

@validate("v1", "Pod", on="DELETE")
def deletions(): pass

@validate("apps/v1", "Deployment", subresource="scale")
def scales(): pass

@validate("apps/v1beta1", "Deployment")
def older(): raise Denied("no")

@validate("v1", "Pod", namespace_selector={"matchLabels": {"team": "a"}})
def teams(): raise Denied("no")
"""
    result = run(folder, "-f", folder / "m", rules=rules)
    lines = result.stdout.splitlines()
    place = f"{folder / 'm' / 'web.yaml'}:13: "
    failed = f"         {place}the rule breaks failed, and failurePolicy Ignore admits the object: rules.py:5: "
    assert lines[lines.index("failed   Pod data/db, breaks (rules.py:3)") + 1].startswith(failed)
    assert "its changes are invalid" in lines[lines.index("refused  Pod data/db, invalid (rules.py:7)") + 1]
    assert "warning  changes (rules.py:11): careful (reviews: 1)" in lines
    assert result.exit_code == 1
    notes = result.stderr.splitlines()
    assert "note: rules.py:16: no object is given to deletions, which gets DELETE of pods" in notes
    assert "note: rules.py:19: no object is given to scales, which gets CREATE, UPDATE of deployments/scale" in notes
    assert any("older (rules.py:22) decides about v1beta1 of Deployment" in one for one in notes)
    assert len([one for one in notes if "teams selects namespaces by labels, and the Namespace data" in one]) == 1


def test_namespaces_definitions_and_the_store_are_those_of_the_files(folder: Path) -> None:
    rules = """
@validate("example.com/v1", "Fish", resource="fishes", follows=("v1", "ConfigMap"),
          namespace_selector={"matchLabels": {"team": "a"}})
def swims(fish, store, settings, request):
    limit = int(store.get("v1", "ConfigMap", "limits", namespace="sea").data["size"])
    if fish.spec.size > limit:
        raise Denied(f"{settings.text} {fish.spec.size} {request.user.username}", field="spec.size")
"""
    names = {"kind": "Fish", "plural": "fishes"}
    size = {"type": "integer", "default": 7}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "default": {}, "properties": {"size": size}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    objects: list[Any] = [
        {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "fishes.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
        },
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sea", "labels": {"team": "a"}}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits", "namespace": "sea"},
         "data": {"size": "5"}},
        *({"apiVersion": "example.com/v1", "kind": "Fish", "metadata": {"name": "f", "namespace": each}}
          for each in ("sea", "lake")),
    ]  # fmt: skip
    (folder / "m" / "web.yaml").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    (folder / "settings.yaml").write_text("rule_settings: {text: too large}\n")
    result = run(folder, "-f", folder / "m", "--user", "jane", "--config", folder / "settings.yaml", rules=rules)
    assert result.stdout.splitlines() == [
        "refused  Fish sea/f, swims (rules.py:3)",
        f"         {folder / 'm' / 'web.yaml'}:1: spec.size: too large 7 jane",
        "swims (rules.py:3): 1 refused, 1 not sent",
    ]


def test_input_that_cannot_be_read_is_counted_and_exits_with_2(folder: Path) -> None:
    file = folder / "m" / "broken.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: [\n")
    (folder / "m" / "web.yaml").write_text(PODS)
    for output, text in (
        ("text", "not examined: 1 input"),
        ("json", '"code": "unreadable-input"'),
        ("github", f"::error file={file},line=4,title=unreadable-input::"),
        ("junit", f'<testcase classname="unreadable-input" name="{file}:4"><failure'),
    ):
        result = run(folder, "-f", folder / "m", "-o", output)
        assert (result.exit_code, text in result.stdout) == (2, True), result.output
        assert f"fleethook: {file}:4: " in result.stderr
    for words, problem in (
        (("-f", "x", "--context", "c"), "give only one of -f and a cluster"),
        (("-f", str(folder / "none")), "none: cannot be read: No such file"),
    ):
        result = run(folder, *words)
        assert (result.exit_code, problem in result.stderr) == (2, True), result.output
    (folder / "rules.py").write_text("x = 1")
    assert "the file has no rule" in run(folder, "-f", folder / "m").stderr


def stored_pod(name: str, image: str, namespace: str = "shop") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "7", "managedFields": []}
    spec = {"containers": [{"name": "a", "image": image}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def serve_pods(cluster: Cluster) -> None:
    cluster.lists["/api/v1/pods"] = [stored_pod("a", "a:1"), stored_pod("b", "b:latest"), stored_pod("c", "c:latest")]
    for path in ("apps/v1/daemonsets", "apps/v1/deployments", "apps/v1/replicasets", "apps/v1/statefulsets",
                 "batch/v1/cronjobs", "batch/v1/jobs"):  # fmt: skip
        cluster.lists[f"/apis/{path}"] = []


def test_objects_of_a_cluster_are_read_in_pages_and_as_new(folder: Path, tmp_path: Path) -> None:
    rules = """
@validate("v1", "Pod", templates=True)
def fixed_tag(pod, request):
    assert request.operation == "CREATE" and pod.status == {} and pod.metadata.keys() == {"name", "namespace", "uid"}
    if pod.spec.containers[0].image.endswith(":latest"):
        raise Denied("use a fixed tag", field="spec.containers[0].image")
"""
    with serve_cluster(tmp_path) as (cluster, options):
        serve_pods(cluster)
        cluster.forbidden = ("daemonsets",)
        cluster.expired = ("/api/v1/pods",)
        cluster.expired_token = "2"
        result = run(folder, *options, rules=rules)
    # The second page had expired, so the list went on with the third object.
    assert result.stdout.splitlines() == [
        "refused  Pod shop/c, fixed-tag (rules.py:3)",
        "         spec.containers[0].image: use a fixed tag",
        "fixed-tag (rules.py:3): 1 allowed, 1 refused",
        "not examined: 1 input",
    ]
    assert {method for method, _ in cluster.requests} == {"GET"}
    assert ("GET", "/api/v1/namespaces") not in cluster.requests
    assert result.stderr.splitlines() == [
        "note: the cluster serves no replicationcontrollers in v1",
        (
            "fleethook: daemonsets.apps: cannot be read: 403 Forbidden: daemonsets is forbidden: add to a ClusterRole that "
            'is bound to the user: {apiGroups: ["apps"], resources: [daemonsets], verbs: [list]}'
        ),
    ]
    assert result.exit_code == 1


def test_a_wildcard_is_all_that_a_cluster_lists(folder: Path, tmp_path: Path) -> None:
    rules = """
@validate("*/*", "*")
def refuses(request):
    raise Denied(f"no {request.resource.resource}")
"""
    listed = {"verbs": ["get", "list"]}
    core = [{"name": one, **listed} for one in ("events", "pods", "secrets")]
    apps = [{"name": "deployments/scale", **listed}, {"name": "tokenreviews", "verbs": ["create"]}]
    with serve_cluster(tmp_path) as (cluster, options):
        serve_pods(cluster)
        cluster.lists["/api/v1/secrets"] = [{**stored_pod("s", "x"), "kind": "Secret"}]
        cluster.documents = {
            "/apis": {"groups": [
                {"name": name, "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}
                for name in ("apps", "gone.example.com")
            ]},
            "/api/v1": {"resources": core},
            "/apis/apps/v1": {"resources": apps},
        }  # fmt: skip
        result = run(folder, *options, rules=rules)
    assert [one for one in result.stdout.splitlines() if "shop/" in one] == [
        *(f"refused  Pod shop/{name}, refuses (rules.py:3)" for name in "abc"),
        "refused  Secret shop/s, refuses (rules.py:3)",
    ]
    # The server of an aggregated API does not answer. Events belong to the control plane.
    assert "fleethook: /apis/gone.example.com/v1: cannot be read: " in result.stderr
    assert ("GET", "/api/v1/events") not in cluster.requests


TRIED_RULES = """
import asyncio
from fleethook.admission import Denied, mutate, validate

@validate("v1", "Pod", templates=True)
def fixed_tag(pod):
    for kind in ("containers", "ephemeralContainers"):
        for index, one in enumerate(pod.spec.get(kind, [])):
            if one.image.endswith(":latest"):
                raise Denied("use a fixed tag", field=f"spec.{kind}[{index}].image", code=422)

@validate("v1", "Pod", on="*", expression="(object == null ? oldObject : object).metadata.name != 'db'", message="no databases")
def no_databases(): pass

@validate("v1", "Pod", failure_policy="Ignore")
def breaks(pod):
    pod.spec.no

@validate("v1", "Pod", timeout=1)
async def hangs(pod):
    if pod.metadata.name == "db":
        await asyncio.Event().wait()

@mutate("v1", "Pod")
def adds_label(pod, warnings):
    warnings.append("careful")
    pod.metadata.setdefault("labels", {})["owner"] = "ann"
"""
POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"containers": [{"name": "a", "image": "a:latest"}]},
}  # fmt: skip
DATABASE = {
    **POD,
    "metadata": {"name": "db", "namespace": "shop"},
    "spec": {"containers": [{"name": "a", "image": "a"}]},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}},
}  # fmt: skip


class Trials(TrialReport):
    """Keeps the outcomes."""

    def __init__(self) -> None:
        super().__init__("t", Output.JSON, InputOptions(), noun="rule")
        self.found = list[Trial]()

    def add(self, trial: Trial) -> None:
        self.found.append(trial)


def try_object(rules: Sequence[Rule], document: dict[str, Any], **options: Any) -> list[Trial]:
    report = Trials()
    trials = RuleTrials(rules, report, user={})
    trials.try_object(document, **options)
    assert not trials.errors
    return report.found


async def ask_server(app: Any, rule: Rule, document: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    made = build_request(document, rules=[rule], **arguments)
    shown = show_request(made, None, validating=not rule.declaration.mutates)
    request = {
        "uid": "u", "operation": shown.operation, "namespace": "shop", "name": shown.name, "object": shown.object,
        "oldObject": shown.old_object, "subResource": shown.sub_resource,
        "kind": {"group": shown.kind.group, "version": "v1", "kind": shown.kind.kind},
        "resource": {"group": shown.kind.group, "version": "v1", "resource": shown.resource.resource},
    }  # fmt: skip
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()
    path = build_rule_path(rule.name, mutates=rule.declaration.mutates)
    answer = await ask(app, path, body)
    return {
        "allowed": answer["allowed"], "message": answer.get("status", {}).get("message", ""),
        "warnings": answer.get("warnings", []), "changes": "patch" in answer,
    }  # fmt: skip


DEBUGGED = {**POD, "spec": {**POD["spec"], "ephemeralContainers": [{"name": "d", "image": "d:latest"}]}}
REPAIRED = {**POD, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
LABELLED = {**POD, "metadata": {**POD["metadata"], "labels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("document", "arguments"),
    [
        (POD, {}),
        (DATABASE, {}),
        (DEPLOYMENT, {}),
        (LABELLED, {"operation": "UPDATE", "old": POD}),
        (POD, {"operation": "UPDATE", "old": REPAIRED}),
        (REPAIRED, {"operation": "UPDATE", "old": POD}),
        (DEBUGGED, {"operation": "UPDATE", "old": POD, "subresource": "ephemeralcontainers"}),
        (POD, {"operation": "DELETE"}),
    ],
)
async def test_all_four_say_the_same(document: dict[str, Any], arguments: dict[str, Any], tmp_path: Path) -> None:
    operation = arguments.setdefault("operation", "CREATE")
    async with serving(tmp_path, TRIED_RULES) as (app, _):
        rules = load_rules([tmp_path / "rules.py"])
        for rule in rules:
            answer = rule.review(document, **arguments)
            if not answer.matched:
                continue
            verdict = {
                "allowed": answer.allowed, "message": answer.message, "warnings": list(answer.warnings),
                "changes": bool(answer.patch),
            }  # fmt: skip
            assert await ask_server(app, rule, document, **arguments) == verdict, rule.name
            output = {name: verdict[name] for name in ("allowed", "message", "warnings")}
            request = {name: one for name, one in arguments.items() if name != "operation"}
            fixture = RuleFixture("t", rule.name, operation, document, request, (), output)
            assert run_rule_fixture(rules, fixture)[1:] == ("", "", []), rule.name
            if operation != "CREATE":
                continue
            (trial,) = try_object([rule], document)
            failure = next((one for one in (answer.message, *answer.warnings) if rule.failure in one), "")
            expected = (
                "failed" if failure else "changed" if answer.patch else "allowed" if answer.allowed else "refused"
            )
            assert (trial.outcome, trial.message) == (expected, failure or answer.message)
            assert trial.warnings == tuple(one for one in answer.warnings if one != failure)


def test_a_rule_gets_a_stored_object_with_the_changes_before_it(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(
        """
from fleethook.admission import Denied, mutate, validate

@mutate("v1", "ConfigMap")
def changes(one):
    assert set(one.metadata) == {"name", "uid"}
    one["data"] = {"a": "b"}

@mutate("v1", "ConfigMap", order=1)
def sees_the_change(one):
    assert one.data.a == "b"

@validate("v1", "ConfigMap")
def checks(one):
    raise Denied(f"{one.metadata.uid} {one.data.a}")
"""
    )
    stored = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}}
    found = try_object(load_rules([tmp_path / "rules.py"]), stored, resource="configmaps", stored=True)
    assert [(one.outcome, one.message) for one in found] == [("changed", ""), ("allowed", ""), ("refused", "u b")]


def test_the_mistakes_of_rules_are_warnings_and_nothing_has_a_side_effect(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(
        """
from fleethook.admission import mutate, validate

@validate("example.org/v1", resource="sheepz")
def wrong_decorator(one):
    one["data"] = {"a": "b"}

@mutate("example.org/v1", resource="sheepz", side_effects="NoneOnDryRun")
def repeats(one, request):
    assert request.dry_run
    one.setdefault("list", []).append("a")
"""
    )
    stored = {"apiVersion": "example.org/v1", "kind": "Sheep", "metadata": {"name": "a"}}
    found = {one.members["rule"]: one for one in try_object(load_rules([tmp_path / "rules.py"]), stored)}
    assert {name: one.outcome for name, one in found.items()} == {"repeats": "changed", "wrong-decorator": "allowed"}
    assert ["changes /list/1" in one for one in found["repeats"].warnings] == [True]
    assert ["@validate drops the changes" in one for one in found["wrong-decorator"].warnings] == [True]
