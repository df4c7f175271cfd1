import builtins
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from fleethook.admission import RuleError, rules_file
from fleethook.admission.rules_file import find_modules, load_rules
from tests.waiting import NET, wait_for

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


def test_a_changed_file_is_read_again_at_once(tmp_path: Path) -> None:
    file = write(tmp_path, HEAD + rule("a"))
    load_rules([file])
    write(tmp_path, HEAD + rule("b"))
    assert [rule.name for rule in load_rules([file])] == ["b"]


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
        ("a = (\n", r"rules\.py:1: SyntaxError: '\(' was never closed"),
        ("a = 1\na.b\n", r"rules\.py:2: AttributeError: 'int' object has no attribute 'b'"),
        ("import json\njson.loads('{')\n", r"rules\.py:2: JSONDecodeError: "),
        ("raise SystemExit(3)\n", r"rules\.py:1: SystemExit: 3"),
        ("import missing_module\n", r"rules\.py:1: ModuleNotFoundError: No module named 'missing_module'"),
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


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event that a file of rules finds as a built-in, and after which the limit of its load begins and ends."""
    event = threading.Event()

    class Started(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            assert event.wait(NET)
            return super().result(timeout)

    monkeypatch.setattr(builtins, "started", event, raising=False)
    monkeypatch.setattr(rules_file, "Future", Started)
    monkeypatch.setattr(rules_file, "MAX_SECONDS", 0.0)
    return event


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("while True: started.set()\n", 1),
        # The handler must not keep the thread from being stopped.
        ("try:\n    while True: started.set()\nexcept Exception: pass\n", 2),
        ("def loop():\n    while True: started.set()\nloop()\n", 2),
        ("import threading\nstarted.set() or threading.Event().wait()\n", 2),
    ],
)
def test_a_file_that_never_ends_is_an_error_at_its_line(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(RuleError, match=rf"rules\.py:{line}: the file was not loaded after 0 s, and runs this line"):
        load_rules([write(tmp_path, text)])


@pytest.mark.usefixtures("started")
def test_a_loop_that_never_ends_is_stopped(tmp_path: Path) -> None:
    write(tmp_path, "\nwhile True: started.set()\n", "common.py")
    with pytest.raises(RuleError, match=r"common\.py:2: the file was not loaded"):
        load_rules([write(tmp_path, "import common\n", "loop.py")])
    wait_for(lambda: "load-loop.py" not in [one.name for one in threading.enumerate()], what="the thread ends")


COMMON = HEAD + "NAMES = {names}\n" + rule("common")
IMPORTING = "from common import NAMES\n" + HEAD + rule("a") + "assert NAMES\n"


def test_a_file_imports_a_module_beside_it_in_its_newest_version(tmp_path: Path) -> None:
    file = write(tmp_path, IMPORTING)
    path = [*sys.path]
    for names in (("a",), ("b",)):
        write(tmp_path, COMMON.format(names=names), "common.py")
        (loaded,) = load_rules([file])
        assert loaded.function.__globals__["NAMES"] == names
    assert sys.path == path
    assert "common" not in sys.modules


def test_a_file_imports_a_package_beside_it_in_its_newest_version(tmp_path: Path) -> None:
    (tmp_path / "library" / "deep").mkdir(parents=True)
    for package in ("library", "library/deep"):
        write(tmp_path, "", f"{package}/__init__.py")
    file = write(tmp_path, IMPORTING.replace("common", "library.deep.names"))
    for names in (("a",), ("b",)):
        module = write(tmp_path, f"NAMES = {names}\n", "library/deep/names.py")
        (loaded,) = load_rules([file])
        assert loaded.function.__globals__["NAMES"] == names
    assert {file, module} < {*find_modules(file)}
    write(tmp_path, "\n1 / 0\n", "library/deep/names.py")
    with pytest.raises(RuleError, match=r"names\.py:2: ZeroDivisionError"):
        load_rules([file])


def test_modules_of_one_name_in_two_folders_stay_apart(tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, f"NAME = {name!r}\n", "common.py")
        files.append(write(tmp_path / name, "from common import NAME\n" + HEAD + rule(name)))
    assert {one.name: one.function.__globals__["NAME"] for one in load_rules(files)} == {"one": "one", "two": "two"}


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


def test_an_error_in_a_module_beside_the_file_names_its_line(tmp_path: Path) -> None:
    write(tmp_path, "\n1 / 0\n", "common.py")
    with pytest.raises(RuleError, match=r"common\.py:2: ZeroDivisionError"):
        load_rules([write(tmp_path, IMPORTING)])


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


def test_a_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="cannot be read: Is a directory; give the files in it"):
        load_rules([tmp_path])


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"rules\.py: cannot be read: No such file or directory"):
        load_rules([tmp_path / "rules.py"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("@validate\ndef f(pod): ...\n", "rules.py:2: the decorator has no arguments: give apiVersion and kind"),
        ("@validate('v1', 'Pod')\nclass F: ...\n", "is no function: decorate one"),
        ("@validate('v1', 'Pod')\n@classmethod\ndef f(pod): ...\n", "is no function: decorate one"),
        ("@validate('v1', 'Pod')\n@validate('v1', 'Node')\ndef f(pod): ...\n", "'f' is a rule already: "),
        ("from .common import f\n", "write `from module import …`"),
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
