from typing import Any

import pytest

from app.dispatch.audit import Audit
from app.dispatch.client_warnings import limit_warnings
from app.dispatch.hooks import compile_hooks


def hook(name: Any = "w.example.org") -> Any:
    (made,) = compile_hooks("validating", "c", {"metadata": {"name": "config"}, "webhooks": [{"name": name}]})
    return made


def test_warnings_are_told_once_and_in_order() -> None:
    assert limit_warnings(["b", "a", "b"]) == ("b", "a")


def test_empty_warnings_and_control_characters_are_dropped() -> None:
    assert limit_warnings(["", "a\nb\x00c\x7f", "\ud800"]) == ("abc",)


def test_warnings_of_4096_characters_are_told_in_full() -> None:
    given = [f"{number:04}" + "x" * 1020 for number in range(4)]
    assert limit_warnings(given) == tuple(given)


def test_more_than_that_are_cut_to_256_each_as_many_as_there_is_room_for() -> None:
    given = [f"{number:04}" + "x" * 1021 for number in range(40)]
    found = limit_warnings(given)
    assert found == tuple(text[:256] for text in given[:16])
    assert sum(map(len, found)) == 4096


def test_warnings_that_are_the_same_once_they_are_cut_are_told_once() -> None:
    assert len(limit_warnings(["x" * 3000 + "1", "x" * 3000 + "2"])) == 1


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
def test_audit_annotations_have_to_be_qualified_names_below_that_of_the_webhook(name: Any, key: Any, kept: Any) -> None:
    audit = Audit()
    audit.record_annotations(hook(name), {key: "v"})
    assert audit.annotations == ({f"{name}/{key}": "v"} if kept else {})
    assert audit.dropped == ([] if kept else [f"{name}/{key}"])


def test_the_first_value_of_an_audit_annotation_stays() -> None:
    audit = Audit()
    audit.record_annotations(hook(), {"k": "first"})
    audit.record_annotations(hook(), {"k": "second"})
    assert audit.annotations == {"w.example.org/k": "first"}
