"""Health by the standard conditions, beside kstatus (its unit tests, and generated objects) and beside the bundle's scripts."""

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from fleethook.cluster.store import Store
from fleethook.engines.interpret.conventions.conventional_kinds import ConventionsLayer
from fleethook.engines.interpret.conventions.health_and_aggregated_status import judge_health
from fleethook.engines.interpret.interpreter_chain import Chain
from fleethook.engines.interpret.lua.bundled_and_crossplane_kinds import BundleLayer, read_bundle
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner
from fleethook.engines.interpret.native.native_kinds import NativeLayer
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import DEFINITIONS_BY_KIND
from fleethook.interpret.interpreter import Question
from fleethook.model.gvk import gvk_of
from fleethook.model.karmada import ConventionsMode, Operation

_DATA: Final = yaml.safe_load((Path(__file__).parent / "kstatus.yaml").read_text("utf-8"))
TABLE: Final[list[dict[str, Any]]] = _DATA["table"]
_GENERATED: Final[dict[str, Any]] = _DATA["generated"]
_BUNDLE: Final[dict[str, str]] = _DATA["bundle"]
_CURRENT: Final = "Current"


def report(line: str) -> None:
    """Print a count; pytest -s shows it."""
    sys.stdout.write(f"{line}\n")


@pytest.fixture(scope="module")
def chain() -> Chain:
    conventions = ConventionsLayer(Store([DEFINITIONS_BY_KIND]), ConventionsMode.HEALTH)
    return Chain([BundleLayer(Runner(), observe=lambda *_: None), NativeLayer(), conventions])


@pytest.mark.parametrize("row", TABLE, ids=[row["name"] for row in TABLE])
async def test_an_answer_is_that_of_kstatus_or_a_difference_with_its_reason(chain: Chain, row: dict[str, Any]) -> None:
    document = row["object"]
    answer = (await chain.answer(Question(Operation.HEALTH, gvk_of(document), document))).answer
    assert answer.healthy is row["healthy"]
    assert (answer.healthy is not (row["kstatus"] == _CURRENT)) is ("reason" in row)


def test_each_kind_of_difference_occurs() -> None:
    differing = Counter(row["reason"] for row in TABLE if "reason" in row)
    report(f"kstatus' unit tests: {len(TABLE) - differing.total()} of {len(TABLE)} answers agree; {dict(differing)}")
    assert differing.keys() == _DATA["reasons"].keys()


def list_generated() -> Iterator[tuple[dict[str, Any], dict[str, Any], str]]:
    """Yield the members, the object and kstatus' answer of each generated object."""
    ignored = _GENERATED["ignored"]
    axes = {name: values for name, values in _GENERATED.items() if name not in ("answers", "ignored")}
    for letter, decided in zip(_GENERATED["answers"], product(*axes.values()), strict=True):
        for others in product(*ignored.values()):
            members = dict(zip((*axes, *ignored), (*decided, *others), strict=True))
            yield members, make_object(members), letter


def make_object(members: dict[str, Any]) -> dict[str, Any]:
    conditions = [
        dict(zip(("type", "status", "reason"), (kind, *members[kind].split(":")), strict=False))
        for kind in ("Available", "Degraded", "Failed", "Progressing", "Ready", "Reconciling", "Stalled")
        if members[kind] is not None
    ]
    document: dict[str, Any] = {"metadata": {"generation": 2}, "spec": {}, "status": {"conditions": conditions}}
    if members["observedGeneration"] is not None:
        document["status"]["observedGeneration"] = members["observedGeneration"]
    if members["deleted"]:
        document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if members["suspend"]:
        document["spec"]["suspend"] = True
    return document


def name_difference(members: dict[str, Any]) -> str:
    """Return the condition that kstatus does not read, but fleethook does; ``""`` if there is none."""
    for kind in ("Failed", "Degraded"):
        if members[kind] == "True":
            return kind
    if members["suspend"]:
        return "suspend"
    if members["Ready"] is None:
        return "Available" if members["Available"] is not None else "Progressing" if members["Progressing"] else ""
    return ""


def test_other_answers_than_those_of_kstatus_come_from_conditions_that_it_does_not_read() -> None:
    asked, differing = 0, Counter[str]()
    for members, document, letter in list_generated():
        asked += 1
        if judge_health(document).healthy is not (letter == _CURRENT[0]):
            difference = name_difference(members)
            assert difference, (members, letter, judge_health(document))
            differing[difference] += 1
    report(f"generated objects: {asked - differing.total()} of {asked} answers agree; {dict(differing)}")
    assert differing.keys() == {"Failed", "Degraded", "suspend", "Available", "Progressing"}


def test_scripts_differ_from_the_standard_conditions_for_a_reason() -> None:
    asked, same, differing = 0, 0, Counter[str]()
    kinds = [one for one in read_bundle() if any(rule.function.operation is Operation.HEALTH for rule in one.rules)]
    for kind in kinds:
        for case in kind.cases():
            if case.question.operation is Operation.HEALTH:
                asked += 1
                document = case.question.object
                if judge_health(document).healthy is case.output["healthy"]:
                    same += 1
                elif (document.get("status") or {}).get("conditions"):
                    differing[kind.folder] += 1
    report(f"fixtures of {len(kinds)} customizations: the standard conditions give {same} of {asked} answers")
    report(f"with conditions, {differing.total()} differ, of {len(differing)} customizations")
    unlisted = sorted(differing.keys() - _BUNDLE.keys())
    assert unlisted == [], "give the reason in tests/conformance/kstatus.yaml, under `bundle`"
    assert sorted(_BUNDLE) == sorted(differing), "a kind whose script gives the answers of the standard conditions"
