"""``fleethook webhook test`` with the webhook of examples/kcp-widgets."""

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest

from fleethook.cluster.certificates.authority_and_serving_certificate import ensure_certificates
from fleethook.cluster.kubernetes.watched_resources import APIBINDINGS, APIEXPORTS, DEFINITIONS, WORKSPACES
from tests.cli.commands import Result, invoke
from tests.cli.fake_cluster import serve_cluster
from tests.engines.dispatch.builders import (
    binding,
    configuration,
    definition,
    export,
    in_cluster,
    namespace,
    webhook,
    workspace,
)
from tests.hook_server import tls
from tests.http_server import HTTPAnswer, HTTPRequest, serve_http
from tests.serving import EXAMPLES
from tests.waiting import NET

EXAMPLE = EXAMPLES / "kcp-widgets"
SIZE, LABEL = "widgets/size.widgets.example.org", "widgets/label.widgets.example.org"


class Example(NamedTuple):
    url: str
    authority: Path

    @property
    def location(self) -> tuple[str, ...]:
        return ("--url", self.url, "--ca-file", str(self.authority))


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    directory = tmp_path_factory.mktemp("webhook")
    files = ensure_certificates(directory, names=["localhost"], now=datetime.now(UTC))
    command = [sys.executable, str(EXAMPLE / "webhook.py"), str(files.certificate), str(files.key), "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        found = re.search(r":(\d+)$", process.stdout.readline().strip())
        assert found
        yield Example(f"https://localhost:{found[1]}", files.authority_certificate)
    finally:
        process.terminate()
        process.wait(timeout=NET)
        assert process.stdout
        process.stdout.close()


def run(*words: str) -> Result:
    return invoke(["webhook", "test", *words])


def try_example(example: Example, *words: str) -> Result:
    return run("-f", str(EXAMPLE / "ws1.yaml"), "--objects", str(EXAMPLE), *example.location, *words)


def test_the_objects_of_all_consumers_are_sent_to_the_owners_webhooks(example: Example) -> None:
    result = try_example(example, "-o", "json")
    found = json.loads(result.stdout)
    refused = [one for one in found["results"] if one["outcome"] == "refused"]
    assert [(one["cluster"], one["operation"], one["name"]) for one in refused] == [
        (cluster, operation, "b") for cluster in ("ws2", "ws3") for operation in ("CREATE", "UPDATE")
    ]
    assert refused[0]["message"].endswith("a Widget in workspace ws2 may have size 10 at most, not 42")
    labelled = [one for one in found["results"] if one["webhook"].startswith("label")]
    assert {(one["cluster"], one["patch"][0]["value"]["example.org/workspace"]) for one in labelled} == {
        ("ws1", "ws1"), ("ws2", "ws2"), ("ws3", "ws3"),
    }  # fmt: skip
    assert {one["webhook"]: one["notSent"] for one in found["webhooks"]}["widgets/scale.widgets.example.org"] == sum(
        one["operation"] == "UPDATE" for one in labelled
    )
    assert result.exit_code == 1
    assert "no existing object is sent to webhook scale.widgets.example.org" in result.stderr


def test_the_table_has_refusals_changes_and_numbers(example: Example) -> None:
    result = try_example(example, "--operation", "UPDATE", "-n", "default")
    lines = result.stdout.splitlines()
    assert f"refused  UPDATE Widget default/b in ws2, {SIZE}" in lines
    at = lines.index(f"changed  UPDATE Widget default/a in ws2, {LABEL}")
    assert lines[at + 1 : at + 3] == [
        "         /metadata/labels", '           + {"example.org/workspace": "ws2"}',
    ]  # fmt: skip
    assert lines[-3:-1] == [f"{LABEL}: 7 changed", f"{SIZE}: 5 allowed, 2 refused"]
    assert "CREATE" not in result.stdout
    assert run("-f", str(EXAMPLE / "ws1.yaml"), "--objects", str(EXAMPLE), "-n", "other").stdout == (
        "no object matches a webhook\n"
    )


def test_junit_has_a_case_for_each_call(example: Example) -> None:
    suite = ET.fromstring(try_example(example, "-o", "junit").stdout)
    assert (suite.get("tests"), suite.get("failures")) == ("28", "4")
    failed = [one.get("name") for one in suite if one.find("failure") is not None]
    assert failed[0] == "CREATE Widget default/b in ws2"
    annotations = try_example(example, "-o", "github", "--operation", "CREATE").stdout.splitlines()
    assert [one.startswith(f"::error title=refused::CREATE Widget default/b in {ws}, {SIZE}: ") for ws, one in zip(
        ("ws2", "ws3"), annotations, strict=True)] == [True, True]  # fmt: skip


def test_a_webhook_without_an_answer_fails_under_each_policy(example: Example, tmp_path: Path) -> None:
    hooks = [webhook(f"{policy.lower()}.example.org", url="https://localhost:1/w", failurePolicy=policy)
             for policy in ("Ignore", "Fail")]  # fmt: skip
    file = tmp_path / "hooks.yaml"
    file.write_text(json.dumps(configuration("ws1", "validating", *hooks)))
    result = run("-f", str(file), "--objects", str(EXAMPLE), "--operation", "CREATE")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-2:] == ["hooks/ignore.example.org: 7 failed", "hooks/fail.example.org: 7 failed"]
    moved = run("-f", str(file), "--objects", str(EXAMPLE), "--url", f"{example.url}/validate",
                "--ca-file", str(example.authority), "-o", "json")  # fmt: skip
    outcomes = {one["webhook"]: one for one in json.loads(moved.stdout)["webhooks"]}
    assert {one["failed"] for one in outcomes.values()} == {7}


def widget(name: str, size: int, **metadata: Any) -> dict[str, Any]:
    members = {"name": name, "namespace": "default", "resourceVersion": "7", "uid": "u", **metadata}
    return {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": members, "spec": {"size": size}}


@contextlib.contextmanager
def recording(directory: Path) -> Iterator[tuple[list[dict[str, Any]], dict[str, str]]]:
    """Yield the requests that a webhook gets, and its clientConfig."""
    context, ca_bundle = tls(directory)
    requests: list[dict[str, Any]] = []

    def respond(request: HTTPRequest) -> HTTPAnswer:
        review = request.read_json()
        requests.append(review["request"])
        return HTTPAnswer(200, {**review, "response": {"uid": review["request"]["uid"], "allowed": True}})

    with serve_http(respond, context) as port:
        yield requests, {"url": f"https://127.0.0.1:{port}/w", "caBundle": ca_bundle}


def test_objects_of_a_cluster_are_sent_page_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []  # Before each page of one object.
    with serve_cluster(tmp_path) as (cluster, options), recording(tmp_path) as (requests, config):
        rules = [{"apiGroups": ["example.org"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["*"]}]
        file = tmp_path / "hooks.yaml"
        file.write_text(json.dumps(configuration("", "validating", webhook(clientConfig=config, rules=rules))))
        cluster.lists = {
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": [definition("", "widgets", "v1")],
            "/api/v1/namespaces": [namespace("")],
            "/apis/example.org/v1/widgets": [widget(f"w{number}", 1) for number in range(20)],
        }
        answer = cluster.answer

        def count(url: str) -> tuple[int, Any]:
            if "widgets" in url:
                sent.append(len(requests))
            return answer(url)

        monkeypatch.setattr(cluster, "answer", count)
        result = run("-f", str(file), *options)
    assert (result.exit_code, result.stdout) == (0, "hooks/w.example.org: 60 allowed\n")
    assert sent[-1] >= 19 * 3 - 16, "only 16 requests wait for an answer"


def test_objects_of_a_cluster_are_sent_as_an_apiserver_sends_them(tmp_path: Path) -> None:
    with serve_cluster(tmp_path) as (cluster, options), recording(tmp_path) as (requests, config):
        rules = [{"apiGroups": ["example.org"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["*"]}]
        file = tmp_path / "hooks.yaml"
        file.write_text(json.dumps(configuration("", "validating", webhook(clientConfig=config, rules=rules))))
        cluster.lists = {
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": [
                configuration("", "validating", webhook("other.example.org"), name="other")
            ],
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": [definition("", "widgets", "v1")],
            "/api/v1/namespaces": [namespace("")],
            "/apis/example.org/v1/widgets": [
                {
                    "apiVersion": "example.org/v1",
                    "kind": "Widget",
                    "metadata": {"name": "a", "namespace": "default", "resourceVersion": "7", "uid": "u"},
                }
            ],
        }
        result = run("-f", str(file), *options, "--user", "jane", "--group", "g")
    assert (result.exit_code, result.stdout) == (0, "hooks/w.example.org: 3 allowed\n")
    assert {method for method, _ in cluster.requests} == {"GET"}
    for one in requests:
        assert (one["dryRun"], one["userInfo"], one["name"]) == (True, {"username": "jane", "groups": ["g"]}, "a")
    by_operation = {one["operation"]: one for one in requests}
    create, update, delete = (by_operation[name] for name in ("CREATE", "UPDATE", "DELETE"))
    assert create["oldObject"] is None
    assert create["object"]["metadata"].pop("uid") != "u"
    assert create["object"]["metadata"].keys() == {"name", "namespace", "generation", "creationTimestamp"}
    assert update["object"] == update["oldObject"] == delete["oldObject"]
    assert (update["object"]["metadata"]["resourceVersion"], delete["object"]) == ("7", None)


def test_the_path_of_a_workspace_names_the_owner_on_a_kcp(tmp_path: Path) -> None:
    hook = webhook(clientConfig={"url": "https://127.0.0.1:1/w"})
    file = tmp_path / "hooks.yaml"
    file.write_text(json.dumps(configuration("", "validating", hook)))
    with serve_cluster(tmp_path) as (cluster, options):
        cluster.lists = {
            f"/clusters/*{WORKSPACES.path}:1": [workspace("root", "prov", "p")],
            f"/clusters/*{APIEXPORTS.path}": [export("p", "widgets.example.org")],
            f"/clusters/*{APIBINDINGS.path}": [binding("c", "p", "widgets.example.org")],
            # kcp has the schemas of bound resources here, and serves no objects of them.
            f"/clusters/*{DEFINITIONS.path}": [definition("system:bound-crds", "widgets.example.org", "v1")],
            "/clusters/c/apis/example.org/v1/widgets": [in_cluster("c", "example.org/v1", "Widget", "b")],
        }
        given = ("-f", str(file), *options, "--kcp", "--operation", "CREATE", "--cluster")
        by_path, by_name = run(*given, "root:prov"), run(*given, "p")
        unknown = {one: run(*given, one).stderr for one in ("root:other", "other", "Root")}
    assert "failed   CREATE Widget b in c, hooks/w.example.org" in by_path.stdout, by_path.output
    assert (by_path.stdout, by_path.stderr) == (by_name.stdout, "")
    assert unknown == {
        "root:other": "fleethook: --cluster: root:other: Workspace other of logical cluster root is unknown\n",
        "other": "fleethook: --cluster: logical cluster other is unknown\n",
        "Root": "fleethook: --cluster: 'Root' is not the name or the path of a logical cluster\n",
    }


def test_recorded_reviews_are_sent_once_for_each_record(example: Example, tmp_path: Path) -> None:
    review = json.loads((EXAMPLES / "testdata" / "review-kcp-widgets.json").read_text())
    plain = {**review, "request": {**review["request"], "operation": "DELETE"}}
    annotated = json.loads(json.dumps(review))
    annotated["request"]["object"]["metadata"]["annotations"] = {"kcp.io/cluster": "ws2"}
    bodies = [("ws3", review), ("ws3", plain), ("", annotated), ("", {"text": "no review"})]
    header = {"format": "fleethook.io/records/v1", "version": "0", "started": "2026-11-26T00:00:00Z"}
    records = [
        {"time": header["started"], "route": "/r", "path": "/r", "cluster": cluster, "review": body, "answer": {}}
        for cluster, body in bodies
    ]
    file = tmp_path / "r.jsonl"
    file.write_text("".join(f"{json.dumps(one)}\n" for one in (header, *records, "damaged")))
    result = try_example(example, "--records", str(file), "--operation", "CREATE")
    assert result.exit_code == 1
    assert [line for line in result.stdout.splitlines() if line.startswith("refused")] == [
        f"refused  CREATE Widget default/b in {cluster}, {SIZE}" for cluster in ("ws3", "ws2")
    ]
    assert "1 records are no admission reviews, and not sent" in result.stderr
    assert f"{file}:6: " in result.stderr
    with recording(tmp_path) as (requests, config):
        hooks = tmp_path / "hooks.json"
        hooks.write_text(json.dumps(configuration("ws1", "validating", webhook(clientConfig=config))))
        run("-f", str(hooks), "--objects", str(EXAMPLE), "--records", str(file), "--operation", "CREATE")
    # None of the reviews was a dry run when it was recorded, and the webhook must have no side effects now.
    assert [(one["operation"], one["dryRun"]) for one in requests] == [("CREATE", True)] * 2
    none = try_example(example, "--records", str(EXAMPLE))
    assert (none.exit_code, f"{EXAMPLE} has no recording" in none.stderr) == (2, True)


def test_wrong_input_is_refused_with_its_reason(tmp_path: Path) -> None:
    objects = ("--objects", str(EXAMPLE))
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(json.dumps(configuration("", "validating", webhook(sideEffects="Often", rules=[]))))
    plain = tmp_path / "plain.yaml"
    plain.write_text(json.dumps(configuration("", "validating", webhook())))
    for words, text in (
        (("--objects", "x"), "give the webhook configurations: -f FILE"),
        (("-f", str(EXAMPLE / "ws2.yaml"), *objects), "there are no webhook configurations in"),
        (("-f", str(wrong), *objects), f"{wrong}:1: webhooks[0].sideEffects: "),
        (("-f", str(plain), *objects, "--url", "http://h"), "--url http://h: give an https URL"),
        (("-f", str(plain), *objects, "--url", "https://h", "--ca-file", "/no"), "--ca-file /no: No such file"),
        (("-f", str(plain), *objects, "--in-cluster"), "give only one of --objects and --in-cluster"),
        (("-f", str(plain), *objects, "--resource", "pods"), "--resource needs a cluster"),
        (("-f", str(plain), *objects, "--records", "r", "--resource", "pods"), "give it without --records"),
        (("-f", str(plain), "--kcp", *objects), "the logical cluster is unknown: give --cluster NAME"),
        (("-f", str(plain), "--kcp", "--cluster", "p", *objects), "--kcp reads a cluster"),
        (("-f", str(plain), "--kubeconfig", "/no"), "--kubeconfig: there is no file /no"),
    ):
        result = run(*words)
        assert (result.exit_code, text in result.stderr, result.stdout) == (2, True, ""), (words, result.output)
