"""The verdict of `rules apply` about an object is that of review(), of `rules test` and of a server."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fleethook.admission.decorators_and_files import load_rules
from fleethook.admission.rule_in_tests import Rule, build_request
from fleethook.cli.options import InputOptions, Output
from fleethook.cli.trial_report import Trial, TrialReport
from fleethook.cluster.registration.paths import build_rule_path
from fleethook.engines.rules.commands.trial_outcomes_and_notes import RuleTrials
from fleethook.engines.rules.rule_fixtures import RuleFixture, run_rule_fixture
from fleethook.workload_schema.admission_objects import show_request
from tests.engines.rules.test_rules_server import ask, serving

RULES = """
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
    async with serving(tmp_path, RULES) as (app, _):
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
