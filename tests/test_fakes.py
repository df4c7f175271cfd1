"""The list of apiservers that tests run in place of a real one, and the rules that they share."""

import ast
import copy
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from tests.apiserver_rules import check_created, check_event, check_review, parse_path
from tests.cluster.object_server import ObjectServer
from tests.fake_requests import FACTS, compare_answers

ROOT = Path(__file__).parents[1]
FAKES = FACTS["fakes"]
SERVED = (
    "/api/v1/",
    "/apis/coordination.k8s.io/v1/",
    "/apis/admissionregistration.k8s.io/v1/",
    "/apis/example.com/v1/",
)
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
ACCESS = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
ATTRIBUTES = {"verb": "get", "resource": "pods"}
EVENTS = "/api/v1/namespaces/a/events"
EVENT = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "a"}, "involvedObject": {}}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}


def is_fake_method(node: ast.AST) -> bool:
    """Return whether a function answers in place of a `Connection`, or of a source of live reads."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    first = [one.arg.strip("_") for one in node.args.args if one.arg != "self"][:1]
    takes_method = first == ["method"] or (not first and node.args.vararg is not None)
    is_request = isinstance(node, ast.AsyncFunctionDef) and node.name in ("request", "json", "post", "get")
    return node.name in ("lines", "read_one") or (is_request and takes_method)


def serves(function: ast.AST) -> bool:
    """Return whether a function answers over HTTP."""
    calls = (one for one in ast.walk(function) if isinstance(one, ast.Call))
    return any(ast.unparse(one.func) == "serve_http" for one in calls)


def find_fakes(tree: ast.Module, path: str, listed: Collection[str]) -> set[str]:
    """Return the classes of a module that answer requests or extend a listed fake, and the functions with nested ones."""
    found = set()
    bases = {one.partition(" ")[2] for one in listed if one.startswith(f"{path} ")}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            source = f"{(node.module or '').replace('.', '/')}.py"
            bases |= {one.asname or one.name for one in node.names if f"{source} {one.name}" in listed}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            named = {one.id for one in node.bases if isinstance(one, ast.Name)}
            if any(map(is_fake_method, node.body)) or named.intersection(bases):
                found.add(node.name)
    for function in tree.body:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = [one for node in ast.walk(function) if isinstance(node, ast.ClassDef) for one in node.body]
            nested = (node for node in ast.walk(function) if node not in inside and node is not function)
            found |= {function.name} if serves(function) or any(map(is_fake_method, nested)) else set()
    return found


def test_each_fake_is_listed() -> None:
    """A class or function that answers requests needs rows in fakes.yaml, which say how upstream answers."""
    listed = {row["fake"] for row in (*FAKES, *FACTS["others"])}
    names = "|".join(one.partition(" ")[2] for one in listed)
    # Only these modules are parsed: the others have no fake.
    may_have = re.compile(rf"serve_http\(|def (?:request|json|post|get|lines|read_one)\(|class \w+\((?:{names})\b")
    texts = {str(one.relative_to(ROOT)): one.read_text() for one in (ROOT / "tests").rglob("*.py")}
    trees = {path: ast.parse(text) for path, text in texts.items() if may_have.search(text)}
    found = {f"{path} {name}" for path, tree in trees.items() for name in find_fakes(tree, path, listed)}
    assert len(found) > 30
    assert sorted(found - listed) == []
    for row in (*FAKES, *FACTS["others"]):
        path, _, name = row["fake"].partition(" ")
        text = (ROOT / path).read_text()
        assert f"class {name}" in text or f"def {name}" in text, row["fake"]


def test_each_answer_names_its_source() -> None:
    rows = [(row["fake"], one) for row in FAKES for one in row["answers"]]
    assert [fake for fake, one in rows if not one["answer"] or not one["upstream"]] == []
    assert [row["fake"] for row in FAKES if not row["answers"]] == []


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("subjectaccessreviews", {**ACCESS, "spec": {"user": "a", "resourceAttributes": ATTRIBUTES}}, 0),
        ("subjectaccessreviews", {**ACCESS, "spec": {"groups": ["a"], "nonResourceAttributes": {}}}, 0),
        ("subjectaccessreviews", {**ACCESS, "spec": {"resourceAttributes": ATTRIBUTES}}, 422),
        ("subjectaccessreviews", {**ACCESS, "spec": {"user": "a"}}, 422),
        ("subjectaccessreviews", {**ACCESS, "spec": {"user": "a", "resourceAttributes": {"labelSelector": {}}}}, 422),
        ("subjectaccessreviews", {**ACCESS, "kind": "TokenReview"}, 400),
        ("selfsubjectaccessreviews", {**ACCESS, "kind": "SelfSubjectAccessReview", "spec": {}}, 422),
        ("nosuchreviews", ACCESS, 404),
    ],
)
def test_reviews_are_refused_as_by_kube_apiserver(path: str, body: Any, code: int) -> None:
    if not code:
        check_review(f"{AUTHORIZATION}/{path}", body)
        return
    with pytest.raises(APIError) as raised:
        check_review(f"{AUTHORIZATION}/{path}", body)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("metadata", "about", "code"),
    [
        ({}, {"namespace": "a"}, 0),
        ({}, {"namespace": "b"}, 422),
        ({}, {}, 422),
        ({"namespace": "b"}, {"namespace": "b"}, 400),
        ({"name": ""}, {"namespace": "a"}, 422),
    ],
)
def test_events_are_refused_as_by_kube_apiserver(metadata: Any, about: Any, code: int) -> None:
    body = {**EVENT, "metadata": {"name": "e", "namespace": "a", **metadata}, "involvedObject": about}
    if not code:
        check_event(EVENTS, body)
        return
    with pytest.raises(APIError) as raised:
        check_event(EVENTS, body)
    assert raised.value.code == code


def test_workloads_are_created_in_a_namespace() -> None:
    with pytest.raises(APIError, match="could not find the requested resource"):
        check_created("/apis/apps/v1/deployments", DEPLOYMENT, {"deployments": ("apps/v1", "Deployment")})


def test_the_apiserver_in_memory_answers_as_a_real_one() -> None:
    """tests/e2e/test_fakes.py sends the same requests to a real kube-apiserver."""
    server, plurals = ObjectServer(), {parse_path(one).plural for one in FACTS["resources"].values()}
    server.is_served = lambda path: path.startswith(SERVED) and parse_path(path).plural in plurals

    def send(method: str, path: str, body: Any, content_type: str, query: dict[str, str]) -> tuple[int, Any]:
        existed = path.removesuffix("/status") in server.objects
        try:
            found = server.answer(method, path, query=query, body=copy.deepcopy(body), content_type=content_type)
        except APIError as error:
            text = {"reason": error.reason, "message": error.message}
            return error.code, text if error.reason or error.code != 404 else error.message
        return 201 if method == "POST" or (method in ("PUT", "PATCH") and not existed) else 200, copy.deepcopy(found)

    assert compare_answers(send) == []
