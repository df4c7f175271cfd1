"""The names in a file: they decide about the decoded members, and about the guards of values."""

import ast

import pytest

from fleethook.admission.rule_names import find_small, find_uses

CONSTANTS = {"LABELS": ("owner", "team"), "PAIRS": (("requests", "cpu"),), "LONG": ["a"], "TIERS": {"web": 1}}


def parse(body: str) -> ast.FunctionDef:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (function,) = ast.parse(f"def rule(pod, key='default'):\n{lines}").body
    assert isinstance(function, ast.FunctionDef)
    return function


@pytest.mark.parametrize(
    ("body", "members"),
    [
        ("return pod.spec.get('a')", {"spec", "a"}),
        ("for one in LABELS:\n    pod.metadata.labels.get(one)", {"metadata", "labels", "owner", "team"}),
        ("for one, two in PAIRS:\n    pod.get(one)", {"requests", "cpu"}),
        ("return TIERS[pod.kind]", {"kind", "web"}),
        ("'''The text of the rule.'''\nraise Denied(f'{pod.spec}', field='spec.a')", set()),
        ("raise Denied(f'a {pod.name}')", set()),
        ("text = f'b {pod.name}'", set()),
        ("return other.a", {"a"}),
    ],
)
def test_a_function_names_the_members_that_it_may_read(body: str, members: set[str]) -> None:
    assert find_uses(parse(body), CONSTANTS).members == members | {"default"}


@pytest.mark.parametrize(
    ("body", "is_named"),
    [
        ("pod.spec.a = 1", True),
        ("pod.spec['a'] = 1\ndel pod.spec.b", True),
        ("pod.spec.setdefault('a', {}).pop('b', None)", True),
        ("pod.spec[key] = 1", False),
        ("pod.spec.a[0] = 1", False),
        ("del pod.spec[key]", False),
        ("pod.spec.setdefault(key, {})", False),
        ("pod.spec.pop(key)", False),
        ("pod.spec.a.append(1)", False),
    ],
)
def test_changes_of_named_members_are_known(body: str, *, is_named: bool) -> None:
    assert find_uses(parse(body), CONSTANTS).changes_named == is_named


@pytest.mark.parametrize(
    ("body", "small"),
    [
        ("for one in LABELS: pass", {"one"}),
        ("for one, two in PAIRS: pass", {"one", "two"}),
        ("names = ('a', 'b')\nfor one in names: pass", {"one"}),
        ("x = [one for one in ('a', 1)]", {"one"}),
        ("for at, one in enumerate(pod.spec.list): pass", {"at"}),
        ("for one in enumerate(pod.spec.list): pass", set()),
        ("for one in pod.spec.list: pass", set()),
        ("for one in LONG: pass", set()),
        ("for one in ('a', pod.name): pass", set()),
        ("for one in LABELS:\n    one = pod.name", set()),
        ("for one in LABELS: pass\nfor one in pod.spec: pass", set()),
        ("names = ('a',)\nnames = pod.list\nfor one in names: pass", set()),
    ],
)
def test_names_of_constants_and_positions_need_no_guard(body: str, small: set[str]) -> None:
    assert find_small(parse(body), CONSTANTS) == small
