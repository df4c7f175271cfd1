"""The bundle answers about objects with missing members and empty values, wherever they are in its fixtures."""

import zlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from fleethook.engines.interpret.interpreter_chain import Chain
from fleethook.engines.interpret.lua.bundled_and_crossplane_kinds import BundledKind, BundleLayer, read_bundle
from fleethook.engines.interpret.lua.lua_machine import LuaError
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner
from fleethook.interpret.interpreter import InterpretError, Question
from fleethook.model.json import JSON
from tests.hypothesis_profiles import cases

KINDS: Final = list(read_bundle())
_REMOVED: Final = object()
_WRONG: Final = ("x", 1, True)
Path = tuple[str | int, ...]


class Mutant(NamedTuple):
    """A question with one changed value."""

    fixture: str
    question: Question
    place: Path
    value: Any

    def __str__(self) -> str:
        """Return the place of the change, and the change."""
        change = "removed" if self.value is _REMOVED else f"set to {self.value!r}"
        return f"{self.question.operation} {self.fixture!r}: {'.'.join(map(str, self.place))} {change}"


def unobserved(*_: Any) -> None:
    return


@pytest.fixture(scope="module")
def chain() -> Chain:
    return Chain([BundleLayer(Runner(), observe=unobserved)])


def list_mutants(kind: BundledKind) -> Iterator[Mutant]:
    """Yield the mutants of all fixtures; in the fast profile only the first one for a change of a member."""
    known = set()
    for case in kind.cases():
        for name in ("object", "observed", "items"):
            for place, value, changed in mutate(getattr(case.question, name), ()):
                if place in (("apiVersion",), ("kind",)):
                    continue
                member = tuple(step if isinstance(step, str) else "*" for step in place)
                key = (case.question.operation, name, member, repr(value))
                if not cases(1) and (key in known or (value in _WRONG and zlib.crc32(repr(key).encode()) % 6)):
                    continue
                known.add(key)
                yield Mutant(case.name, case.question._replace(**{name: changed}), (name, *place), value)


def mutate(value: JSON, place: Path) -> Iterator[tuple[Path, Any, Any]]:
    """Yield a document with one member or element changed, with its place and its new value."""
    if not isinstance(value, dict | list):
        return
    for step, member in list(value.items() if isinstance(value, dict) else enumerate(value)):
        for new in (_REMOVED, None, *(({}, []) if isinstance(member, dict | list) else ()), *_WRONG):
            if new is _REMOVED or type(new) is not type(member) or new != member:
                yield (*place, step), new, replace(value, step, new)
        for inner, new, changed in mutate(member, (*place, step)):
            yield inner, new, replace(value, step, changed)


def replace(value: Any, step: Any, new: Any) -> Any:
    copy = value.copy()
    if new is _REMOVED:
        del copy[step]
    else:
        copy[step] = new
    return copy


def test_mutants_change_each_member_once() -> None:
    found = list(mutate({"a": [1], "b": {}}, ()))
    assert [(place, changed) for place, new, changed in found if new is _REMOVED] == [
        (("a",), {"b": {}}), (("a", 0), {"a": [], "b": {}}), (("b",), {"a": [1]}),
    ]  # fmt: skip
    assert [changed for place, new, changed in found if new == [] and place != ("a", 0)] == [
        {"a": [], "b": {}}, {"a": [1], "b": []},
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=[kind.folder for kind in KINDS])
async def test_missing_and_empty_values_have_an_answer(chain: Chain, kind: BundledKind) -> None:
    """Values of a wrong type may be an error that names them. Other exceptions than InterpretError fail the test."""
    failed = []
    for mutant in list_mutants(kind):
        try:
            await chain.answer(mutant.question)
        except InterpretError as error:
            # Errors about the answer name the wrong value; a script may not fail.
            if mutant.value in _WRONG or (mutant.value in ({}, []) and not isinstance(error.__cause__, LuaError)):
                continue
            failed.append(f"{mutant}: {error}")
    assert not failed, "\n".join(failed[:20])
