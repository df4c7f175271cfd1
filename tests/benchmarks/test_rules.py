"""The inputs and the arithmetic of the benchmark of admission rules; `make bench` measures."""

from pathlib import Path

from benchmarks.cases import rules
from benchmarks.engines.rule_checks import CHECKED
from benchmarks.engines.rule_pods import EDITS, RULES, pods
from fleethook.admission.decorators_and_files import load_rules
from fleethook.cluster.registration.paths import build_rule_path
from tests.serving import EXAMPLES

POLICIES = [one for one in load_rules([EXAMPLES / "policies" / "rules.py"]) if not one.declaration.subresource]
"""The rules for new Pods; the others are for debug containers."""


def test_the_paths_are_those_of_the_example() -> None:
    assert {rule.name: build_rule_path(rule.name, mutates=rule.declaration.mutates) for rule in POLICIES} == RULES


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
