"""A decorator makes a function a rule, or tells which argument is wrong."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.admission import RuleError, validate
from fleethook.admission.decorators_and_files import load_rules


def with_parameter(pod: Any) -> None:
    pass


def with_store(store: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("function", "options", "problem"),
    [
        (with_parameter, {"expression": "true", "message": "no"}, "does not run its function: remove the parameters"),
        (with_parameter, {"expression": "true"}, "expression: give message="),
        (with_parameter, {"expression": "true", "message": " \n"}, "expression: give message="),
        (with_parameter, {"message": None}, "message: None is no text"),
        (with_parameter, {"message": "no"}, "message: it belongs to expression="),
        (
            with_parameter,
            {"expression": "true &&\n  tru || fals", "message": "no"},
            "expression: compilation failed: line 2, column 3: undeclared reference to 'tru'; line 2, column 10: undeclared reference to 'fals'$",
        ),
        (with_store, {}, "the parameter 'store' needs the kinds to follow"),
    ],
)
def test_a_bad_rule_is_an_error_with_its_place(function: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(RuleError, match=rf"test_decorators_and_files\.py:\d+: {function.__name__}: .*{problem}"):
        validate("v1", "Pod", **options)(function)


def test_a_function_is_one_rule() -> None:
    with pytest.raises(RuleError, match=r"'with-name' is a rule already: .* for several kinds, call validate"):
        validate("v1", "Pod")(validate("v1", "Pod", name="with-name")(with_parameter))


def test_a_rule_is_still_a_function() -> None:
    assert validate("v1", "Pod")(with_parameter)({}) is None
    assert validate("v1", "Pod", name="kinds")(lambda pod: pod["kind"])({"kind": "Pod"}) == "Pod"


HEAD = "from fleethook.admission import mutate, validate\n"
RULE = '@{decorator}("v1", "Pod"{options})\ndef {name}(pod):\n    pass\n'


def rule(name: str, decorator: str = "validate", options: str = "") -> str:
    return RULE.format(name=name, decorator=decorator, options=options)


def write(tmp_path: Path, text: str, name: str = "rules.py") -> Path:
    file = tmp_path / name
    file.write_text(text)
    return file


def test_mutating_rules_are_first_then_order_and_name_decide(tmp_path: Path) -> None:
    one = write(tmp_path, HEAD + rule("b") + rule("a") + rule("z", options=", order=-1"))
    two = write(tmp_path, HEAD + rule("m", "mutate"), "more.py")
    assert [rule.name for rule in load_rules([one, two])] == ["m", "z", "a", "b"]


def test_types_of_the_file_are_found(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        + HEAD
        + "@dataclass\nclass Pod:\n    kind: str\n"
        + '@validate("v1", "Pod")\ndef a(pod: Pod):\n    assert pod.kind == "Pod"\n'
    )
    (loaded,) = load_rules([write(tmp_path, text)])
    assert loaded.review({"apiVersion": "v1", "kind": "Pod"}).allowed


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", r"rules\.py: the file has no rule: decorate a function"),
        ("a = 1\na.b\n", r"rules\.py:2: AttributeError: 'int' object has no attribute 'b'"),
        (HEAD + rule("a", options=", scope='x'"), r"rules\.py:2: a: scope: 'x' is unknown"),
        (
            HEAD + rule("a") + rule("a"),
            r"rules\.py:5: two rules have the name 'a', and the other one is at \S*rules\.py:2: rename",
        ),
        (HEAD + rule("a_b") + rule("b", options=", name='a-b'"), "two rules have the name 'a-b'"),
    ],
)
def test_an_error_names_file_and_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(RuleError, match=problem):
        load_rules([write(tmp_path, text)])


COMMON = HEAD + "NAMES = {names}\n" + rule("common")


def test_the_rules_that_a_file_imports_by_name_count_once(tmp_path: Path) -> None:
    write(tmp_path, COMMON.format(names=("a",)), "common.py")
    only_module = write(tmp_path, "import common\n" + HEAD + rule("b"))
    assert [one.name for one in load_rules([only_module])] == ["b"]
    by_name = write(tmp_path, "from common import common\nalias = common\n", "imports.py")
    assert [one.name for one in load_rules([by_name])] == ["common"]


def test_a_rule_of_a_file_that_another_one_imports_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path, HEAD + rule("a")).parent)
    write(tmp_path, HEAD + "from rules import a\n" + rule("b"), "more.py")
    files = [Path("rules.py"), Path("more.py"), tmp_path / "rules.py"]
    assert [rule.name for rule in load_rules(files)] == ["a", "b"]


def test_rules_of_one_function_and_name_are_an_error(tmp_path: Path) -> None:
    text = HEAD + "def a(pod):\n    pass\nfor kind in ('Pod', 'Node'):\n    validate('v1', kind)(a)\n"
    with pytest.raises(RuleError, match="two rules have the name 'a'"):
        load_rules([write(tmp_path, text)])


def test_two_rules_of_one_name_in_two_files_are_an_error_with_both_places(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, two = write(tmp_path, HEAD + rule("a")), write(tmp_path / "other", HEAD + "\n" + rule("a"))
    with pytest.raises(RuleError) as caught:
        load_rules([one, two])
    assert str(caught.value).startswith(f"{two}:3: two rules have the name 'a', and the other one is at {one}:2: ")


def test_a_loop_that_makes_rules_gives_each_a_name(tmp_path: Path) -> None:
    made = f"{HEAD}for kind in ('Pod', 'Pod'):\n @validate('v1', kind)\n def a(pod): pass\n"
    with pytest.raises(
        RuleError, match=r"rules\.py:3: two rules have the name 'a', .*: rename a function, or give name="
    ):
        load_rules([write(tmp_path, made)])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("@validate\ndef f(pod): ...\n", "rules.py:2: the decorator has no arguments: give apiVersion and kind"),
        ("@validate('v1', 'Pod')\nclass F: ...\n", "is no function: decorate one"),
        ("@validate('v1', 'Pod')\n@classmethod\ndef f(pod): ...\n", "is no function: decorate one"),
        ("@validate('v1', 'Pod')\n@validate('v1', 'Node')\ndef f(pod): ...\n", "'f' is a rule already: "),
        (
            "@validate('v1', 'Pod', order='first')\ndef f(pod): ...\n",
            "rules.py:2: f: order: 'first' is no whole number",
        ),
        ("@validate('v1', 'Pod', timeout=2.5)\ndef f(pod): ...\n", "timeout: 2.5 is no whole number of seconds"),
        ("@validate('v1', 'Pod')\ndef f(pod): yield\n", "rules.py:2: f: the function has a yield"),
        ("@validate('v1', 'Pod')\nasync def f(pod): yield\n", "rules.py:2: f: the function has a yield"),
        ("@validate('v1', None)\ndef f(pod): ...\n", "kind: None is no text"),
        ("@validate('v1', 'Pod', on=None)\ndef f(pod): ...\n", "on: None is no operation or list of operations"),
        ("@validate('v1', 'Pod', match_conditions=['true'])\ndef f(pod): ...\n", "is no mapping from names"),
        ("@validate('v1', 'Pod', match_conditions={'a b': 'true'})\ndef f(pod): ...\n", "'a b' is no name"),
        ("@validate('v1', 'Pod', expression=5, message='no')\ndef f(): ...\n", "expression: 5 is no text"),
    ],
)
def test_a_wrong_argument_is_named_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "rules.py"
    file.write_text(f"from fleethook.admission import validate\n{text}")
    with pytest.raises(RuleError) as raised:
        load_rules([file])
    assert "rules.py:2: " in str(raised.value)
    assert problem in str(raised.value)
