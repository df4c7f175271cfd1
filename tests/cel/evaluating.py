"""Evaluates expressions against a small request."""

from typing import Any, Final

from fleethook.cel.program import Activation, compile_condition

POD: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
    "spec": {"replicas": 3, "ratio": 1.5, "hosts": ["a", "b"], "nothing": None},
}
REQUEST: Final[dict[str, Any]] = {
    "uid": "705ab4f5",
    "kind": {"group": "", "version": "v1", "kind": "Pod"},
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "subResource": "",
    "name": "web",
    "namespace": "default",
    "operation": "CREATE",
    "userInfo": {"username": "jane", "uid": "7", "groups": ["dev"], "extra": {"scopes": ["b", "a"]}},
    "dryRun": False,
    "object": POD,
    "oldObject": None,
    "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
}


def bind(
    object_: Any = POD,
    *,
    old_object: Any = None,
    request: dict[str, Any] = REQUEST,
) -> Activation:
    return Activation(object_=object_, old_object=old_object, request=request)


def evaluate(expression: str, object_: Any = POD, **members: Any) -> bool:
    return compile_condition(expression).evaluate(bind(object_, **members))
