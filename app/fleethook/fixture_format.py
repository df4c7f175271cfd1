"""Fixtures in YAML: tests that share objects, and the comparison of a found value with the expected one.

A document has ``objects``, by name, and ``tests``. Instead of an object, a test may give a name, or
``{from: NAME, with: MERGE PATCH}`` (RFC 7386). A test with ``each: [NAME, ...]`` runs once for each of these objects,
which has the name ``each`` there.
"""

import json
from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple, TypeVar

from fleethook.model.formats.text import nearest
from fleethook.model.json import JSON, JSONObject
from fleethook.patch.diff import diff
from fleethook.patch.pointer_and_limits import resolve as resolve_pointer
from fleethook.patch.strategic_merge_patch import merge_patch

DOCUMENT: Final = ("rules", "objects", "tests")
"""The members of a document; only those of admission rules have ``rules``."""
EXCLUDE: Final = "{{EXCLUDE}}"
"""Matches any value."""

T = TypeVar("T")


class FixtureError(ValueError):
    """A fixture is malformed; the text names the problem."""

    test = 0
    """The index of its test in ``tests``."""


class Difference(NamedTuple):
    """A value that differs from the expected answer."""

    path: str
    expected: JSON
    found: JSON


def is_fixture(document: JSON) -> bool:
    """Return whether a document has the members of a fixture, alone or in ``tests``."""
    return isinstance(document, dict) and ("tests" in document or "operation" in document or "output" in document)


def read_tests(
    document: JSONObject, read: Callable[[JSON, JSONObject], T], errors: list[FixtureError] | None = None
) -> Iterator[tuple[int, T]]:
    """Yield the index and the value of each test of a document.

    Args:
        document: A document with ``tests``.
        read: Returns the value of a test and of the objects by name; may raise FixtureError.
        errors: Gets the errors of malformed tests, None to raise the first one.

    Raises:
        FixtureError: The document is malformed; ``test`` is the index.
    """
    tests, objects = document["tests"], document.get("objects") or {}
    if not isinstance(tests, list) or not isinstance(objects, dict):
        raise FixtureError("tests must be a list, and objects must be an object")
    for name in document:
        # Other members may have the anchors of YAML.
        if name not in DOCUMENT and (meant := nearest(name, DOCUMENT)):
            raise FixtureError(f"{name!r} is unknown beside tests: did you mean {meant}?")
    known: JSONObject = {}
    for name, value in objects.items():
        known[name] = resolve_object(value, known)
    for index, test in enumerate(tests):
        try:
            for expanded, named in _repeat_test(test, known):
                yield index, read(expanded, named)
        except FixtureError as error:
            error.test = index
            if errors is None:
                raise
            errors.append(error)


def _repeat_test(test: JSON, objects: JSONObject) -> Iterator[tuple[JSON, JSONObject]]:
    """Yield a test for each of the objects that it lists, which has the name ``each`` there; raises FixtureError."""
    if not isinstance(test, dict) or "each" not in test:
        yield test, objects
        return
    names = test["each"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise FixtureError("each must be a list of names of objects, at least one")
    for name in names:
        rest = {member: value for member, value in test.items() if member != "each"}
        yield rest | {"name": f"{test.get('name')}: {name}"}, objects | {"each": resolve_object(name, objects)}


# YAML reads n and y as false and true.
_TEXTS: Final = frozenset({"name", "rule", "clusterName"})


def check_members(value: JSONObject, known: Collection[str], *, any_other: bool = False) -> None:
    """Raise FixtureError for a member that is none of the known ones, and for a name that is no text.

    Args:
        value: The object.
        known: The names of its members.
        any_other: Whether it may have members whose names are not similar to a known one.
    """
    for name in _TEXTS & value.keys():
        if not isinstance(value[name], str):
            raise FixtureError(f"{name} must be text, not {json.dumps(value[name])}: quote it")
    for name in value:
        meant = None if name in known else nearest(name, known)
        if meant:
            raise FixtureError(f"{name!r} is unknown: did you mean {meant}?")
        if name not in known and not any_other:
            raise FixtureError(f"{name!r} is unknown: use {', '.join(known)}")


def resolve_object(value: JSON, objects: JSONObject) -> JSON:
    """Return the object for a name, or for a name with a merge patch; raises FixtureError."""
    if isinstance(value, str):
        if value not in objects:
            raise FixtureError(f"unknown object {value!r}: objects has {', '.join(objects) or 'none'}")
        return objects[value]
    if isinstance(value, dict) and value.get("from") in objects and isinstance(value["from"], str):
        check_members(value, ("from", "with"), any_other=True)
    if isinstance(value, dict) and "from" in value and value.keys() <= {"from", "with"}:
        return merge_patch(resolve_object(value["from"], objects), value.get("with") or {})
    return value


def compare_member(
    name: str, expected: JSON, found: JSON, ignores: Callable[[JSONObject], bool] = lambda _: False
) -> Iterator[Difference]:
    """Yield the differences between the found and the expected value of a member of an answer.

    Args:
        name: The member.
        expected: The expected value.
        found: The found value.
        ignores: Whether an operation of the patch from the expected to the found value is no difference.
    """
    for step in diff({"": expected}, {"": found}):
        if _is_excluded({"": expected}, step["path"]) or ignores(step):
            continue
        before = find_value({"": expected}, step["path"]) if step["op"] != "add" else None
        yield Difference(f"{name}{step['path'].removeprefix('/')}", before, step.get("value"))


def find_value(document: JSONObject, pointer: str) -> JSON:
    """Return the value at a pointer, None without one."""
    try:
        return resolve_pointer(document, pointer)
    except LookupError:
        return None


def _is_excluded(document: JSONObject, pointer: str) -> bool:
    """Return whether the expected answer accepts any value at a place or at one of its parents."""
    while pointer:
        if find_value(document, pointer) == EXCLUDE:
            return True
        pointer = pointer.rpartition("/")[0]
    return False
