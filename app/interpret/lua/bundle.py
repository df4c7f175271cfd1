"""The bundle: interpreters of well-known custom resources, each with its fixtures.

``app/interpret/bundle/<group>/<kind>/customization.yaml`` is a ResourceInterpreterCustomization with two extensions:
its scripts may ``require("fleet")``, and it may be for more than one version (`rules.ALSO_FOR`).

``app/interpret/bundle/<group>/conventions.yaml`` lists the kinds of a group that need no script (`ConventionalKind`).
If a kind has both, its script answers the operations that it has.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import chain
from typing import Final, NamedTuple

import msgspec
import yaml

from app.interpret.chain import Handler, Observe
from app.interpret.conventions.kinds import ConventionalKind
from app.interpret.fixtures import Fixture, read_fixtures
from app.interpret.lua.layer import LuaLayer, Rules, index_rules
from app.interpret.lua.rules import Rule, read_customization
from app.interpret.lua.runner import Runner
from app.interpret.question import Question
from app.model.gvk import GroupVersionKind
from app.model.karmada import Operation
from app.store.yaml_reader import read_values

_ROOT: Final = resources.files("app.interpret").joinpath("bundle")
_CONVENTIONS: Final = "conventions.yaml"

Conventions = Mapping[tuple[GroupVersionKind, Operation], Handler]


class BundledKind(NamedTuple):
    """The rules for one kind, or for the kinds that share a customization."""

    folder: str
    """``<group>/<kind>``."""
    rules: list[Rule]
    conventions: ConventionalKind | None = None
    """The rules of the operations without a script."""

    @property
    def kinds(self) -> set[GroupVersionKind]:
        """The kinds that have a rule."""
        group, _, kind = self.folder.partition("/")
        versions = () if self.conventions is None else self.conventions.versions
        return {rule.kind for rule in self.rules} | {GroupVersionKind(group, version, kind) for version in versions}

    @property
    def operations(self) -> set[Operation]:
        """The operations that have a rule."""
        answered = () if self.conventions is None else self.conventions.answered
        return {rule.function.operation for rule in self.rules}.union(answered)

    def cases(self) -> Iterator[Fixture]:
        """Yield the fixtures of its rules."""
        group = self.folder.partition("/")[0]
        files: list[Traversable] = []
        if self.conventions is not None:
            files.append(_ROOT.joinpath(group, _CONVENTIONS))
        if self.rules:
            files += sorted(_ROOT.joinpath(self.folder, "testdata").iterdir(), key=lambda entry: entry.name)
        for file in files:
            for value in read_values(file.read_text("utf-8"), source=f"{group}/{file.name}"):
                yield from (case for case in read_fixtures(value.value) if case.question.kind in self.kinds)


class _Group(msgspec.Struct, frozen=True):
    """``conventions.yaml``, which also has ``objects`` and ``tests``."""

    kinds: dict[str, ConventionalKind]


def read_bundle() -> Iterator[BundledKind]:
    """Yield the bundle by group and kind; raises ValueError if a file is invalid, which tests rule out."""
    for group in sorted(_ROOT.iterdir(), key=lambda entry: entry.name):
        listed = _read_conventions(group)
        folders = {entry.name for entry in group.iterdir() if entry.name != _CONVENTIONS}
        for kind in sorted(folders | listed.keys()):
            folder = f"{group.name}/{kind}"
            rules = list(_read_rules(folder)) if kind in folders else []
            yield BundledKind(folder, rules, listed.get(kind))


def _read_rules(folder: str) -> Iterator[Rule]:
    document = yaml.load(_ROOT.joinpath(folder, "customization.yaml").read_text("utf-8"), yaml.CSafeLoader)
    found = read_customization(document)
    if found.problems:
        raise ValueError(f"bundle {folder}: {found.problems[0].place}: {found.problems[0].text}")
    return (rule._replace(source=f"bundle {folder}") for rule in found.rules)


def _read_conventions(group: Traversable) -> dict[str, ConventionalKind]:
    file = group.joinpath(_CONVENTIONS)
    if not file.is_file():
        return {}
    try:
        return msgspec.convert(yaml.load(file.read_text("utf-8"), yaml.CSafeLoader), _Group).kinds
    except msgspec.ValidationError as error:
        raise ValueError(f"bundle {group.name}/{_CONVENTIONS}: {error}") from None


@lru_cache(maxsize=1)
def load_bundle_rules() -> Rules:
    """Return the rules with a script; the first call reads them."""
    return index_rules(rule for kind in _load() for rule in kind.rules)


@lru_cache(maxsize=1)
def _load() -> tuple[BundledKind, ...]:
    return tuple(read_bundle())


def _index_conventions(kinds: Iterable[BundledKind]) -> Iterator[tuple[tuple[GroupVersionKind, Operation], Handler]]:
    for kind in kinds:
        if kind.conventions is not None:
            handler = Handler(f"bundle {kind.folder}", kind.conventions.answer, in_thread=True)
            yield from (((one, operation), handler) for one in kind.kinds for operation in kind.conventions.answered)


class BundleLayer:
    """The bundle: a script, or else the conventions of a listed kind."""

    name = "bundle"

    def __init__(self, runner: Runner, *, observe: Observe) -> None:
        """Read the bundle, so that no review waits for it; arguments as for `LuaLayer`."""
        self._scripts: Final = LuaLayer("bundle", load_bundle_rules, runner, observe=observe)
        self._conventions: Final[Conventions] = dict(_index_conventions(_load()))
        load_bundle_rules()

    def knows(self, kind: GroupVersionKind, operation: Operation) -> bool:
        """Return whether there is a rule for a kind and operation."""
        return self._scripts.knows(kind, operation) or (kind, operation) in self._conventions

    def find(self, question: Question) -> Handler | None:
        """Return the rule for a kind and operation."""
        return self._scripts.find(question) or self._conventions.get((question.kind, question.operation))

    def answers(self) -> Iterable[tuple[GroupVersionKind, Operation]]:
        """Return the kinds and operations that have a rule."""
        return chain(self._scripts.answers(), self._conventions)
