"""The inputs and the arithmetic of the benchmark of admission rules; `make bench` measures."""

import json
from pathlib import Path

import pytest

from benchmarks.cases import rules
from benchmarks.engines.rule_checks import CHECKED
from benchmarks.engines.rule_pods import EDITS, RULES, pods, reviews
from benchmarks.harness.load import Figures
from benchmarks.harness.rounds import Round
from fleethook.admission.rules_file import load_rules
from fleethook.engines.rules.rules_server import find_path
from tests.serving import EXAMPLES

POLICIES = [one for one in load_rules([EXAMPLES / "policies" / "rules.py"]) if not one.declaration.subresource]
"""The rules for new Pods; the others are for debug containers."""


def test_the_paths_are_those_of_the_example() -> None:
    assert {rule.name: find_path(rule) for rule in POLICIES} == RULES


def test_all_rules_are_inline_in_the_other_row(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(rules.make_inline((EXAMPLES / "policies" / "rules.py").read_text()))
    assert all(one.declaration.inline for one in load_rules([tmp_path / "rules.py"]))


def test_each_edit_changes_a_decision() -> None:
    documents = pods(CHECKED)
    decisions = [
        {rule.name: (answer.allowed, len(answer.patch)) for rule in POLICIES for answer in [rule.review(pod)]}
        for pod in documents
    ]
    usual = {name: (True, int(name == "seccomp")) for name in RULES}
    assert [one == usual for one in decisions] == [number % 10 != 0 for number in range(CHECKED - 10)] + [True] * 10
    assert len(documents) == 10 * len(EDITS)


def test_a_review_is_that_of_a_creation() -> None:
    first, second = (json.loads(body)["request"] for body in reviews(pods(2)))
    assert first["uid"] != second["uid"]
    assert (first["operation"], first["kind"]["kind"], first["object"]["kind"]) == ("CREATE", "Pod", "Pod")


def figures(requests: float, p50: float) -> Figures:
    return {"requests_per_second": requests, "p50_ms": p50, "p99_ms": 2 * p50}


@pytest.mark.parametrize(("requests", "p50", "met"), [(2_000, 0.4, [True] * 5), (1_000, 0.6, [False] * 5)])
def test_goals_compare_with_kopf_and_controller_runtime(requests: float, p50: float, met: list[bool]) -> None:
    rounds: list[Round] = [
        {
            rules.OURS: figures(requests, p50),
            rules.INLINE: figures(2 * requests, p50),
            rules.CONTROLLER_RUNTIME: figures(1_000, 0.5),
            rules.KOPF: figures(500, 2.0),
        }
    ]
    assert [one["met"] for one in rules.compare_with_goals(rounds, rounds)] == met
    assert "| kopf | 2.000 | 4.000 |" in rules.one_table(rounds)
