"""The rules of docs/explanation/policy-libraries.md: their number, their lines, and the recorded Pods of its table."""

import ast
import re
from collections import Counter
from typing import Final

import pytest
import yaml

from tests.conformance.policy_libraries import RECORDED, TOOLS, load_cases
from tests.documentation.blocks import DOCS, read_blocks
from tests.serving import EXAMPLES, ROOT
from tests.test_house import count_code_lines

PAGE: Final = DOCS / "explanation" / "policy-libraries.md"
TEXT: Final = PAGE.read_text(encoding="utf-8")
SOURCES: Final = dict(zip(TOOLS, (block.text for block in read_blocks(PAGE)), strict=True))
MAX_COLUMNS: Final = 120
RULES: Final = {"required-labels", "image-registries", "no-latest", "resource-limits", "seccomp"}


def count_lines(source: str, *, is_python: bool) -> int:
    """Return the number of lines that are neither blank, nor comments, nor docstrings."""
    if is_python:
        return count_code_lines(source)
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in source.splitlines())


def test_the_page_has_the_rules_of_the_examples() -> None:
    assert SOURCES["fleethook"] == (EXAMPLES / "policies" / "rules.py").read_text()


@pytest.mark.parametrize("tool", ["fleethook", "kopf"])
def test_the_rules_in_python_are_complete(tool: str) -> None:
    functions = [node for node in ast.parse(SOURCES[tool]).body if isinstance(node, ast.FunctionDef)]
    decorated = {function.name.replace("_", "-") for function in functions if function.decorator_list}
    assert decorated - {"configure"} == RULES


def test_the_policies_of_kyverno_are_complete() -> None:
    names = [policy["metadata"]["name"] for policy in yaml.safe_load_all(SOURCES["kyverno"])]
    assert sorted(names) == sorted(RULES)


def test_the_table_counts_lines_by_one_rule() -> None:
    counted = [count_lines(SOURCES[tool], is_python=tool != "kyverno") for tool in TOOLS]
    assert "| lines for the five rules | " + " | ".join(map(str, counted)) + " |" in TEXT
    assert max(len(line) for source in SOURCES.values() for line in source.splitlines()) <= MAX_COLUMNS


def test_the_table_counts_the_recorded_pods() -> None:
    recorded: Counter[str] = Counter()
    for case in load_cases():
        answer = case.answers["fleethook"]
        recorded[answer["webhook"].partition(".")[0] if "webhook" in answer else str(bool(answer["patch"]))] += 1
    order = ("True", "False", "required-labels", "image-registries", "no-latest", "resource-limits")
    shown = re.findall(r"^\| [^|]+ \| (\d+) \| (?:admitted|refused)", TEXT, re.MULTILINE)
    assert [int(number) for number in shown] == [recorded[one] for one in order]
    assert f"We created {recorded.total()} Pods" in TEXT


@pytest.mark.parametrize("tool", ["kubernetes", "kopf", "kyverno"])
def test_the_page_has_the_recorded_versions(tool: str) -> None:
    noun = {"kubernetes": "kube-apiserver", "kopf": "kopf", "kyverno": "Kyverno"}[tool]
    assert f"{noun} {RECORDED['versions'][tool].removeprefix('v')}" in TEXT


@pytest.mark.parametrize("lock", ["requirements/dev.txt", "benchmarks/requirements.txt"])
def test_the_tests_run_the_recorded_version_of_kopf(lock: str) -> None:
    assert f"\nkopf=={RECORDED['versions']['kopf']} " in (ROOT / lock).read_text()
