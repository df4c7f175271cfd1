"""The annotation ``fleethook.io/dependencies``, and the label that retains replicas."""

from typing import Any

import pytest

from fleethook.engines.interpret.metadata_rules import (
    DEPENDENCIES_ANNOTATION,
    make_missing_count_error,
    read_listed_dependencies,
    retains_replicas,
)
from fleethook.interpret.typed_members import InterpretError

POINTER = "/metadata/annotations/fleethook.io~1dependencies"


def read(written: Any, namespace: str = "n") -> list[dict[str, Any]]:
    return read_listed_dependencies(
        {"metadata": {"namespace": namespace, "annotations": {DEPENDENCIES_ANNOTATION: written}}}
    )


SECRET = {"apiVersion": "v1", "kind": "Secret", "name": "s"}


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("", []),
        (" \n", []),
        ("[]", []),
        ('[{"apiVersion": "v1", "kind": "Secret", "name": "s"}]', [{**SECRET, "namespace": "n"}]),
        ("- {apiVersion: v1, kind: Secret, name: s}", [{**SECRET, "namespace": "n"}]),
        ("# a comment\n- apiVersion: v1\n  kind: Secret\n  name: s\n  namespace: other\n", [{**SECRET, "namespace": "other"}]),
        (
            "[{apiVersion: foo.org/v1, kind: Foo, labelSelector: {}}]",
            [{"apiVersion": "foo.org/v1", "kind": "Foo", "namespace": "n", "labelSelector": {}}],
        ),
        # Cluster-scoped: known as such, or said to be.
        (
            "[{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: r}]",
            [{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "r"}],
        ),
        (
            "[{apiVersion: foo.org/v1, kind: Foo, name: f, namespace: ''}]",
            [{"apiVersion": "foo.org/v1", "kind": "Foo", "name": "f"}],
        ),
    ],
)  # fmt: skip
def test_references_get_the_namespace_of_the_object(written: str, found: list[dict[str, Any]]) -> None:
    assert read(written) == found


def test_references_of_an_object_without_a_namespace_have_none() -> None:
    assert read("[{apiVersion: v1, kind: Secret, name: s}]", namespace="") == [SECRET]
    assert read_listed_dependencies({}) == []
    assert read_listed_dependencies({"metadata": {"annotations": None}}) == []


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("{}", ": expected a list of references, found object"),
        ("secret", ": expected a list of references, found string"),
        ("[", ": line 2: "),
        ("- a: b\n c: d", ": line 2: "),
        ("[&a [], *a]", ": anchors and aliases of YAML are not supported"),
        ("[]\n---\n[]", ": expected one list of references, found 2 documents"),
        ("[s]", "/0: expected an object with apiVersion, kind, and name or labelSelector"),
        ("[{apiVersion: v1, name: s}]", "/0/kind: expected a string that is not empty"),
        ("[{apiVersion: 1, kind: Secret, name: s}]", "/0/apiVersion: expected a string that is not empty"),
        ("[{apiVersion: v1, kind: Secret, name: 5}]", "/0/name: expected a string"),
        ("[{apiVersion: v1, kind: Secret, names: s, name: s}]", "/0/names: unknown member, expected one of apiVersion, kind"),
        ("[{apiVersion: v1, kind: Secret, a/b: s, name: s}]", "/0/a~1b: unknown member"),
        ("[{apiVersion: v1, kind: Secret}]", "/0: expected either name or labelSelector"),
        ("[{apiVersion: v1, kind: Secret, name: s, labelSelector: {}}]", "/0: expected either name or labelSelector"),
        (
            "[{apiVersion: v1, kind: Secret, labelSelector: {matchExpressions: [{key: a, operator: B}]}}]",
            "/0/labelSelector/matchExpressions/0/operator: ",
        ),
        ("[{apiVersion: v1, kind: A, name: a}, {apiVersion: v1, kind: B}, 7]", "/1: expected either name or labelSelector; "),
    ],
)  # fmt: skip
def test_each_problem_of_the_list_has_a_pointer(written: str, problem: str) -> None:
    with pytest.raises(InterpretError) as caught:
        read(written)
    assert str(caught.value).startswith(POINTER + problem)


def test_an_annotation_that_is_no_string_is_an_error() -> None:
    with pytest.raises(InterpretError, match=r"annotations\.fleethook\.io/dependencies accessor error"):
        read([SECRET])


def test_only_the_value_true_retains_replicas() -> None:
    labels = "resourcetemplate.karmada.io/retain-replicas"
    assert [retains_replicas({"metadata": {"labels": {labels: value}}}) for value in ("true", "True", "", True)] == [
        True, False, False, False,
    ]  # fmt: skip
    assert not retains_replicas({"metadata": None})
    assert "Deployment n/d" in str(
        make_missing_count_error({"kind": "Deployment", "metadata": {"namespace": "n", "name": "d"}})
    )
