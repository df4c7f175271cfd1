from typing import Any

import pytest

from fleethook.engines.dispatch.call.audit import Audit
from fleethook.engines.dispatch.hooks.hooks import compile_hooks


def hook(name: Any = "w.example.org") -> Any:
    (made,) = compile_hooks("validating", "c", {"metadata": {"name": "config"}, "webhooks": [{"name": name}]})
    return made


@pytest.mark.parametrize(
    ("name", "key", "kept"),
    [
        ("w.example.org", "decision", True),
        ("w.example.org", "with space", False),
        ("w.example.org", "a/b", False),
        ("w.example.org", "x" * 64, False),
        ("Upper.example.org", "decision", False),
        ("", "decision", False),
    ],
)
def test_audit_annotations_must_be_qualified_names(name: Any, key: Any, kept: Any) -> None:
    audit = Audit()
    audit.record_annotations(hook(name), {key: "v"})
    assert audit.annotations == ({f"{name}/{key}": "v"} if kept else {})
    assert audit.dropped == ([] if kept else [f"{name}/{key}"])


def test_the_first_value_of_an_audit_annotation_is_kept() -> None:
    audit = Audit()
    audit.record_annotations(hook(), {"k": "first"})
    audit.record_annotations(hook(), {"k": "second"})
    assert audit.annotations == {"w.example.org/k": "first"}
