"""The three formats of predicted effects."""

import json
from typing import Any

import pytest

from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.commands.diff_output import Allowed, Output, print_outcomes
from fleethook.engines.overrider.rollout.effect import Effect
from fleethook.engines.overrider.rollout.prediction import Outcome
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_OVERRIDER, YURT_APP_SET

DEMO = ObjectKey("", YURT_APP_SET, "default", "demo")
OTHER = ObjectKey("ws1", YURT_APP_DAEMON, "", "oth_er")
IMAGE = "/spec/template/spec/containers/0/image"
ROLLS = Outcome(DEMO, "hangzhou", "Deployment", "demo-x", Effect("rolls", 5, (2, 5), (IMAGE, "/spec/replicas")))
SAME = Outcome(DEMO, "beijing", "Deployment", "demo-y", Effect("unchanged"))
NOTED = Outcome(DEMO, "jinan", "Deployment", "demo-z", Effect("unchanged", notes=("paused",)))
CREATED = Outcome(OTHER, "a|b", "StatefulSet", "", Effect("created", 1))
FAILED = Outcome(OTHER, "bad", "StatefulSet", "w", Effect("error"), "no container *app*")


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("NO_COLOR", "1")


def show(
    capsys: pytest.CaptureFixture[str], output: Output, *outcomes: Outcome, allowed: tuple[Allowed, ...] = ()
) -> list[str]:
    print_outcomes(outcomes, allowed, output)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_text_leaves_out_unchanged_workloads_without_notes(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(capsys, Output.TEXT, ROLLS, SAME, NOTED) == [
        "YurtAppSet default/demo: rolls 1 of 3 workloads, 5 pods",
        f"  hangzhou: Deployment demo-x rolls 5 pods replicas 2 → 5 ({IMAGE})",
        "  jinan: Deployment demo-z unchanged",
        "    paused",
    ]


def test_text_of_several_subjects_ends_with_a_total(capsys: pytest.CaptureFixture[str]) -> None:
    lines = show(capsys, Output.TEXT, ROLLS, CREATED, FAILED)
    assert lines[2:] == [
        "YurtAppDaemon default/oth_er of ws1: creates 1 workload, 1 pod; cannot render 1 workload",
        "  a|b: StatefulSet created 1 pod",
        "  bad: StatefulSet w cannot be rendered no container *app*",
        "Total: rolls 1 of 2 workloads, 5 pods; creates 1 workload, 1 pod; cannot render 1 workload",
    ]


@pytest.mark.parametrize("output", [Output.TEXT, Output.MARKDOWN])
def test_no_outcome_changes_nothing(capsys: pytest.CaptureFixture[str], output: Output) -> None:
    assert "changes none of 0 workloads" in "".join(show(capsys, output))


@pytest.mark.parametrize("output", list(Output))
def test_allowances_are_shown_in_each_format(capsys: pytest.CaptureFixture[str], output: Output) -> None:
    allowed = Allowed(ObjectKey("", YURT_APP_OVERRIDER, "default", "o"), "5-abc")
    text = "\n".join(show(capsys, output, ROLLS, allowed=(allowed,)))
    assert "YurtAppOverrider default/o" in text
    assert "fleethook.io/allow-rollout" in text
    assert "5-abc" in text


@pytest.mark.parametrize(
    ("effect", "details"),
    [
        (Effect("scales", 3, (2, 5), ("/spec/replicas",)), "replicas 2 → 5"),
        (Effect("spec", 0, (2, 5), ("/spec/paused",)), "(/spec/paused)"),
        (Effect("deleted", 4, (4, 0)), "4 pods"),
        (Effect("metadata", 0, (1, 1), ("/metadata/annotations/fleethook.io~1rendered",)),
         "(/metadata/annotations/fleethook.io~1rendered)"),
        (Effect("metadata", 0, (1, 1), ("/metadata/annotations/fleethook.io~1rendered", "/metadata/labels/a")),
         "(/metadata/labels/a)"),
        (Effect("spec", 0, (1, 1), ("/a", "/b", "/c")), "(/a, /b, /c)"),
        (Effect("spec", 0, (1, 1), ("/a", "/b", "/c", "/d", "/e")), "(/a, /b, /c and 2 more)"),
    ],
)  # fmt: skip
def test_details_name_the_numbers_and_fields_that_matter(
    capsys: pytest.CaptureFixture[str], effect: Effect, details: str
) -> None:
    line = show(capsys, Output.TEXT, SAME._replace(effect=effect))[1]
    assert line.endswith(f" {details}")


def test_json_has_every_workload_and_the_totals(capsys: pytest.CaptureFixture[str]) -> None:
    found: Any = json.loads("\n".join(show(capsys, Output.JSON, ROLLS, SAME, FAILED)))
    assert (found["count"], found["effects"], found["pods"], found["allowances"]) == (
        3, {"rolls": 1, "unchanged": 1, "error": 1}, {"rolls": 5}, [],
    )  # fmt: skip
    demo, other = found["subjects"]
    assert [one["pool"] for one in demo["workloads"]] == ["hangzhou", "beijing"]
    assert demo["workloads"][0]["replicas"] == {"before": 2, "after": 5}
    assert demo["workloads"][0]["paths"] == [IMAGE, "/spec/replicas"]
    assert (other["subject"], other["count"]) == ("YurtAppDaemon default/oth_er of ws1", 1)
    assert other["workloads"][0]["error"] == "no container *app*"


def test_markdown_escapes_names_and_leaves_out_unchanged_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    lines = show(capsys, Output.MARKDOWN, NOTED, CREATED, FAILED)
    assert lines[0] == "**creates 1 workload, 1 pod; cannot render 1 workload**"
    assert lines[2:5] == ["### YurtAppSet default/demo", "", "changes none of 1 workload"]
    assert "### YurtAppDaemon default/oth\\_er of ws1" in lines
    assert lines[-2:] == [
        "| a\\|b | StatefulSet | created | 1 pod |",
        "| bad | StatefulSet w | cannot be rendered | no container \\*app\\* |",
    ]
    assert not [line for line in lines if "jinan" in line]
