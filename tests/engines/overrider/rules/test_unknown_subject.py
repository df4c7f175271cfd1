"""Tests of the message about an overrider whose subject does not exist."""

from typing import Any

import pytest

from fleethook.engines.overrider.rules.unknown_subject import unknown_subject
from tests.builders import API, entry, overrider, store_of, yurt_app_daemon, yurt_app_set

KNOWN = "YurtAppSet default/demo is not known yet, so nothing could be rendered to check this"


def describe(*subjects: dict[str, Any], every_namespace: bool = True, name: str = "demo") -> str:
    rule = overrider(entry("*"), subject={"apiVersion": API, "kind": "YurtAppSet", "name": name})
    finding = unknown_subject(
        rule, cluster="", namespace="default", store=store_of(*subjects), every_namespace=every_namespace
    )
    assert finding[:2] == ("unknown-subject", "subject.name")
    return finding.message.removeprefix(KNOWN.replace("demo", name))


def in_namespace(subject: dict[str, Any], namespace: str) -> dict[str, Any]:
    return {**subject, "metadata": {**subject["metadata"], "namespace": namespace}}


@pytest.mark.parametrize(
    ("subject", "hint"),
    [
        (yurt_app_set("other"), ""),
        (yurt_app_set("dmeo"), "; did you mean dmeo?"),
        (yurt_app_daemon("demo"), "; YurtAppDaemon demo exists: did you mean kind YurtAppDaemon?"),
        (
            in_namespace(yurt_app_set(), "edge"),
            (
                "; YurtAppSet demo is in namespace edge and the overrider in namespace default: "
                "an overrider must be in its subject's namespace"
            ),
        ),
    ],
)
def test_the_subject_that_was_probably_meant_is_named(subject: dict[str, Any], hint: str) -> None:
    assert describe(subject) == hint


def test_the_kind_is_suggested_before_the_namespace() -> None:
    assert "kind YurtAppDaemon" in describe(yurt_app_daemon("demo"), in_namespace(yurt_app_set(), "edge"))


def test_admission_names_no_subject_of_another_namespace() -> None:
    subjects = (in_namespace(yurt_app_set(), "edge"), in_namespace(yurt_app_set("dmeo"), "edge"))
    assert describe(*subjects, every_namespace=False) == ""


@pytest.mark.parametrize(("count", "hint"), [(1000, "; did you mean set-500x?"), (1001, "")])
def test_more_than_a_thousand_names_are_not_compared(count: int, hint: str) -> None:
    subjects = [yurt_app_set(f"set-{number}x") for number in range(count)]
    assert describe(*subjects, name="set-500") == hint
