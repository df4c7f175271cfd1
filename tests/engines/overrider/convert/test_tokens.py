"""Tests of the name of a node pool in tweaks."""

from typing import Any

import pytest

from fleethook.engines.overrider.convert.tokens import fill_pool, replace_text, with_tokens
from fleethook.engines.overrider.entries.value_marks import POOL_MARK

M, T = POOL_MARK, "{{nodepool-name}}"
SPEC = "/spec/template/spec"


def test_text_is_replaced_in_values_and_keys() -> None:
    assert replace_text({"a-x": ["x", 1, {"x": None}]}, "x", "y") == {"a-y": ["y", 1, {"y": None}]}


def test_the_mark_becomes_the_name_of_the_pool() -> None:
    operation = {"op": "add", "path": f"/metadata/annotations/{M}", "value": f"in {M}"}
    assert fill_pool([operation], "a") == [{"op": "add", "path": "/metadata/annotations/a", "value": "in a"}]


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        (f"{SPEC}/containers/0/image", f"r.io/{M}:1", f"r.io/{T}:1"),
        (f"{SPEC}/containers/0/env", [{"name": "P", "value": M}], [{"name": "P", "value": T}]),
        (f"{SPEC}/volumes/0/name", M, "a"),
        (f"{SPEC}/serviceAccountName", f"sa-{M}", "sa-a"),
        (f"{SPEC}/volumes", [{"name": M, "hostPath": {"path": f"/{M}"}}], [{"name": "a", "hostPath": {"path": "/a"}}]),
        (f"{SPEC}/nodeSelector", {"pool": M}, {"pool": T}),
        (f"{SPEC}/nodeSelector", {"pool": f"in-{M}"}, {"pool": "in-a"}),
        (f"{SPEC}/nodeSelector/pool", f"{M}-x", "a-x"),
        (f"{SPEC}/nodeSelector", {M: "x"}, {"a": "x"}),
        ("/metadata/annotations", {f"k-{M}": "x"}, {"k-a": "x"}),
        ("/metadata/annotations/note", f"in-{M}", f"in-{T}"),
    ],
)
def test_the_token_is_used_where_an_empty_name_is_valid(path: str, value: Any, shown: Any) -> None:
    operation = {"op": "add", "path": path, "value": value}
    assert with_tokens(operation, "a") == {**operation, "value": shown}


def test_a_path_has_the_name_of_the_pool() -> None:
    assert with_tokens({"op": "remove", "path": f"{SPEC}/nodeSelector/{M}"}, "a") == {
        "op": "remove",
        "path": f"{SPEC}/nodeSelector/a",
    }
