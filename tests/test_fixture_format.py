import pytest

from fleethook.fixture_format import (
    Difference,
    FixtureError,
    compare_member,
    find_value,
    is_fixture,
    read_tests,
    resolve_object,
)
from fleethook.model.json import JSON


def read(**document: JSON) -> list[tuple[int, JSON]]:
    return list(read_tests(document, lambda test, objects: [test, objects]))


def test_tests_get_the_objects_by_name() -> None:
    objects = {"a": {"x": 1}, "b": {"from": "a", "with": {"y": 2}}}
    assert read(tests=[7], objects=objects) == [(0, [7, {"a": {"x": 1}, "b": {"x": 1, "y": 2}}])]


def test_a_test_runs_once_for_each_of_its_objects() -> None:
    found = read(tests=[{"name": "t", "each": ["a", "b"]}], objects={"a": {"x": 1}, "b": {"x": 2}})
    assert [(index, test["name"], objects["each"]) for index, (test, objects) in found] == [  # type: ignore[index]
        (0, "t: a", {"x": 1}),
        (0, "t: b", {"x": 2}),
    ]


@pytest.mark.parametrize(
    ("document", "test", "problem"),
    [
        ({"tests": 7}, 0, "tests must be a list"),
        ({"tests": [], "objects": [1]}, 0, "objects must be an object"),
        ({"tests": [1, {"each": "a"}]}, 1, "each must be a list of names"),
        ({"tests": [1, {"each": []}]}, 1, "each must be a list of names of objects, at least one"),
        ({"tests": [1, {"each": ["a"]}]}, 1, "unknown object 'a': objects has none"),
        ({"tests": [1], "object": {}}, 0, "'object' is unknown beside tests: did you mean objects"),
        (
            {"tests": [], "objects": {"a": {}, "b": {"from": "a", "wiht": {}}}},
            0,
            "'wiht' is unknown: did you mean with",
        ),
    ],
)
def test_an_error_has_the_index_of_its_test(document: dict[str, JSON], test: int, problem: str) -> None:
    with pytest.raises(FixtureError, match=problem) as raised:
        read(**document)
    assert raised.value.test == test


def test_an_object_is_a_name_a_patch_or_itself() -> None:
    assert resolve_object("a", {"a": {"x": 1}}) == {"x": 1}
    assert resolve_object({"from": "a", "with": {"x": None}}, {"a": {"x": 1}}) == {}
    assert resolve_object({"from": "a", "other": 1}, {}) == {"from": "a", "other": 1}


def test_differences_have_paths_and_both_values() -> None:
    expected, found = {"a": 1, "b": "{{EXCLUDE}}", "c": {"d": 2}}, {"a": 1, "b": 7, "c": {"d": 3}}
    assert list(compare_member("object", expected, found)) == [Difference("object/c/d", 2, 3)]
    assert list(compare_member("object", expected, found, lambda step: step["path"].endswith("/d"))) == []


def test_a_document_is_a_fixture_by_its_members() -> None:
    assert is_fixture({"tests": []})
    assert is_fixture({"operation": "Retain"})
    assert not is_fixture({"kind": "ConfigMap"})
    assert not is_fixture([])


def test_a_missing_value_is_none() -> None:
    assert find_value({"a": [1]}, "/a/0") == 1
    assert find_value({"a": [1]}, "/b") is None
