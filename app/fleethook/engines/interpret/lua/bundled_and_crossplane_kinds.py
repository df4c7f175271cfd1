"""The bundle: interpreters of well-known custom resources with their fixtures, and of the kinds of Crossplane.

``app/fleethook/engines/interpret/bundle/<group>/<kind>/customization.yaml`` is a ResourceInterpreterCustomization with
two extensions: its scripts may ``require("fleet")``, and it may be for more than one version (`rules.ALSO_FOR`).

``app/fleethook/engines/interpret/bundle/<group>/conventions.yaml`` lists the kinds of a group that need no script
(`ConventionalKind`). If a kind has both, its script answers the operations that it has.

Users of Crossplane define kinds: managed resources, composite resources and claims. All of them have the rules of one
kind of the bundle (`STAND_IN`). Crossplane and its providers write the sort of a kind to the categories of its
CustomResourceDefinition (crossplane v2 internal/xcrd). Without a definition, a kind in the API group of a provider
counts as a managed resource.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import chain, product
from typing import Final, NamedTuple

import msgspec
import yaml

from fleethook.cluster.manifests.yaml_decoding_and_lines import read_values
from fleethook.cluster.store import StoreView
from fleethook.engines.interpret.conventions.conventional_kinds import ConventionalKind
from fleethook.engines.interpret.interpreter_chain import Handler, Observe, ignore_call
from fleethook.engines.interpret.interpreter_fixtures import Fixture, read_fixtures
from fleethook.engines.interpret.lua.customization_rules_and_configmap import CustomizationRule, read_customization
from fleethook.engines.interpret.lua.script_layer_and_runner import LuaLayer, Rules, Runner, index_rules
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import DEFINITIONS_BY_KIND
from fleethook.interpret.interpreter import Answer, Question
from fleethook.model.gvk import GroupVersionKind, list_served_kinds
from fleethook.model.json import JSON, as_object
from fleethook.model.karmada import Operation

_ROOT: Final = resources.files("fleethook.engines.interpret").joinpath("bundle")
_CONVENTIONS: Final = "conventions.yaml"
_FIXTURES: Final = "\nobjects:"
"""Begins the fixtures in ``conventions.yaml``, whose YAML takes most of the time to read."""
STAND_IN: Final = GroupVersionKind("crossplane.io", "v1", "Managed")
"""The kind in the bundle that has the rules for all of them."""
_CATEGORIES: Final = frozenset({"managed", "composite", "claim"})
_PROVIDERS: Final = (".crossplane.io", ".upbound.io")
_CORE: Final = ("apiextensions", "meta.pkg", "ops", "pkg", "protection", "secrets", "stacks")

Conventions = Mapping[tuple[GroupVersionKind, Operation], Handler]


class BundledKind(NamedTuple):
    """The rules for one kind, or for the kinds that share a customization."""

    folder: str
    """``<group>/<kind>``."""
    rules: list[CustomizationRule]
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


# msgspec describes a type at its first use. In two threads at once, this crashes the process.
msgspec.json.Decoder(_Group)


def read_bundle() -> Iterator[BundledKind]:
    """Yield the bundle by group and kind; raises ValueError if a file is invalid, which tests rule out."""
    for group in _list_groups():
        listed, folders = _read_conventions(group), _list_folders(group)
        for kind in sorted({*folders, *listed}):
            folder = f"{group.name}/{kind}"
            rules = _read_rules(folder) if kind in folders else []
            yield BundledKind(folder, rules, listed.get(kind))


def _list_groups() -> list[Traversable]:
    return sorted(_ROOT.iterdir(), key=lambda entry: entry.name)


def _list_folders(group: Traversable) -> list[str]:
    """Return the kinds of a group that have a customization."""
    return sorted(entry.name for entry in group.iterdir() if entry.name != _CONVENTIONS)


def _read_rules(folder: str) -> list[CustomizationRule]:
    text = _ROOT.joinpath(folder, "customization.yaml").read_text("utf-8")
    customization = read_customization(yaml.load(text, yaml.CSafeLoader))
    if customization.problems:
        raise ValueError(f"bundle {folder}: {customization.problems[0].field}: {customization.problems[0].text}")
    return [rule._replace(source=f"bundle {folder}") for rule in customization.rules]


def _read_conventions(group: Traversable) -> dict[str, ConventionalKind]:
    file = group.joinpath(_CONVENTIONS)
    if not file.is_file():
        return {}
    listed = file.read_text("utf-8").partition(_FIXTURES)[0]
    try:
        return msgspec.convert(yaml.load(listed, yaml.CSafeLoader), _Group).kinds
    except msgspec.ValidationError as error:
        raise ValueError(f"bundle {group.name}/{_CONVENTIONS}: {error}") from None


class Bundle(NamedTuple):
    """The bundle by kind and operation.

    Attributes:
        rules: The rules with a script.
        conventions: The handlers of the listed kinds, and of the kinds that share a customization with one of them.
    """

    rules: Rules
    conventions: Conventions


@cache
def load_bundle() -> Bundle:
    """Return the bundle; the first call reads and compiles it."""
    kinds = list(read_bundle())
    own: dict[tuple[GroupVersionKind, Operation], Handler] = {}
    shared: dict[tuple[GroupVersionKind, Operation], Handler] = {}
    for one in kinds:
        if one.conventions is None:
            continue
        handler = Handler(f"bundle {one.folder}", one.conventions.answer, in_thread=True)
        group, _, name = one.folder.partition("/")
        for version, operation in product(one.conventions.versions, one.conventions.answered):
            own[GroupVersionKind(group, version, name), operation] = handler
        beside = {rule.kind for rule in one.rules}
        shared.update(((kind, operation), handler) for kind, operation in product(beside, one.conventions.answered))
    return Bundle(index_rules(rule for bundled_kind in kinds for rule in bundled_kind.rules), {**shared, **own})


class BundleLayer:
    """The bundle: a script, or else the conventions of a listed kind, or else the rules for a family of kinds."""

    name = "bundle"

    def __init__(self, runner: Runner, *, observe: Observe = ignore_call, definitions: StoreView | None = None) -> None:
        """Load the bundle, so that no review waits for it; arguments as for `LuaLayer`.

        Args:
            runner: Runs the scripts.
            observe: Called after each call of a script.
            definitions: CustomResourceDefinitions, which tell the kinds of a family.
        """
        bundle = load_bundle()
        self._scripts: Final = LuaLayer("bundle", lambda: bundle.rules, runner, observe=observe)
        self._conventions: Final = bundle.conventions
        self._definitions: Final = definitions

    def find(self, question: Question) -> Handler | None:
        """Return the rule for a kind and operation."""
        found = self._scripts.find(question) or self._conventions.get((question.kind, question.operation))
        if found is None and is_defined_by_users(question.kind, self._definitions):
            found = self._scripts.find(question._replace(kind=STAND_IN))
        metadata = as_object(question.object.get("metadata"))
        if found is not None and question.operation is Operation.HEALTH and metadata.get("deletionTimestamp"):
            return Handler(found.hook, lambda _: Answer(healthy=False, rule="the object is being deleted"))
        return found

    def answers(self) -> Iterable[tuple[GroupVersionKind, Operation]]:
        """Return the kinds and operations that have a rule."""
        rules = chain(self._scripts.answers(), self._conventions)
        family = [operation for kind, operation in self._scripts.answers() if kind == STAND_IN]
        yield from (rule for rule in rules if rule[0] != STAND_IN)
        yield from product(list_defined_by_users(self._definitions), family)


def is_defined_by_users(kind: GroupVersionKind, definitions: StoreView | None) -> bool:
    """Return whether a kind is a managed resource, a composite resource or a claim.

    Args:
        kind: The kind.
        definitions: CustomResourceDefinitions, indexed by `DEFINITIONS_BY_KIND`; None if there are none.
    """
    found = () if definitions is None else definitions.find(DEFINITIONS_BY_KIND, "", tuple(kind.group_kind))
    if found:
        return _has_category(as_object(found[0].get("spec")))
    group = next((kind.group.removesuffix(one) for one in _PROVIDERS if kind.group.endswith(one)), "")
    # ProviderConfigs and their usages configure providers.
    return group not in ("", *_CORE) and not kind.kind.endswith(("Config", "ConfigUsage"))


def list_defined_by_users(definitions: StoreView | None) -> Iterator[GroupVersionKind]:
    """Yield the served versions of all kinds in the definitions for which `is_defined_by_users` is true."""
    for definition in () if definitions is None else definitions.each("", DEFINITIONS_BY_KIND.group_kind):
        if _has_category(as_object(definition.get("spec"))):
            yield from list_served_kinds(definition)


def _has_category(spec: Mapping[str, JSON]) -> bool:
    categories = as_object(spec.get("names")).get("categories")
    return isinstance(categories, list) and not _CATEGORIES.isdisjoint(
        category for category in categories if isinstance(category, str)
    )
