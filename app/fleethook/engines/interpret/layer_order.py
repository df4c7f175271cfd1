"""Assembles the chain of layers for the server and for the commands; its last layer knows every kind by conventions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fleethook.cluster.store import Stored, StoreView
from fleethook.engines.interpret.conventions.kinds import ConventionalKind, Scale
from fleethook.engines.interpret.interpreter_chain import (
    Chain,
    Handler,
    Layer,
    NativeLayer,
    Observe,
    PythonLayer,
    ignore_call,
)
from fleethook.engines.interpret.lua.bundle import BundleLayer
from fleethook.engines.interpret.lua.customizations import Customizations, LuaLayer
from fleethook.engines.interpret.lua.script_runner import Runner
from fleethook.engines.interpret.native import find_native
from fleethook.engines.interpret.webhooks.webhook_configuration import DEFINITIONS_BY_KIND
from fleethook.interpret.interpreter import Interpreter, Question
from fleethook.model.gvk import GroupVersionKind, list_served_kinds
from fleethook.model.json import as_object, enumerate_objects
from fleethook.model.karmada import ConventionsMode, Operation

_RULES: Final[Mapping[Operation, str]] = {
    Operation.HEALTH: "standard conditions",
    Operation.REPLICA: "scale subresource",
    Operation.REVISE_REPLICA: "scale subresource",
    Operation.DEPENDENCY: "Pod templates",
}
"""The names of the rules in explanations. InterpretStatus has none: the native layer reports the status of any kind."""
_OPERATIONS: Final[Mapping[ConventionsMode, frozenset[Operation]]] = {
    ConventionsMode.OFF: frozenset(),
    ConventionsMode.HEALTH: frozenset({Operation.HEALTH}),
    ConventionsMode.ALL: frozenset(_RULES),
}
_OWN: Final = ("karmada.io", "fleethook.io")
"""The groups of control planes, whose objects no cluster gets; their subgroups, too."""


class ConventionsLayer:
    """Answers for each kind; for replicas only if a CustomResourceDefinition has a scale subresource."""

    name = "conventions"

    def __init__(self, store: StoreView, mode: ConventionsMode) -> None:
        """Prepare.

        Args:
            store: CustomResourceDefinitions; indexed by `DEFINITIONS_BY_KIND`.
            mode: The operations to answer.
        """
        self._store: Final = store
        self._operations: Final = _OPERATIONS[mode]

    def find(self, question: Question) -> Handler | None:
        """Return the rule of an operation, None if the kind has no scale subresource for it."""
        # The native layer answers first.
        if question.operation not in self._operations or find_native(question.kind, question.operation) is not None:
            return None
        found = self._store.find(DEFINITIONS_BY_KIND, "", tuple(question.kind.group_kind))
        kind = _read_kind(question.kind, found[0] if found else None)
        if question.operation not in kind.answered:
            return None
        return Handler(_RULES[question.operation], kind.answer, in_thread=True)

    def answers(self) -> Iterator[tuple[GroupVersionKind, Operation]]:
        """Return the kinds of all CustomResourceDefinitions, except those of Karmada itself."""
        for definition in self._store.each("", DEFINITIONS_BY_KIND.group_kind) if self._operations else ():
            for kind in list_served_kinds(definition):
                answered = () if _is_own(kind.group) else _read_kind(kind, definition).answered
                yield from ((kind, operation) for operation in self._operations.intersection(answered))


def _is_own(group: str) -> bool:
    return group.endswith(tuple(f".{one}" for one in _OWN)) or group in _OWN


def _read_kind(kind: GroupVersionKind, definition: Stored | None) -> ConventionalKind:
    """Return the rules of a kind, with the scale subresource of its version in the definition."""
    scale, spec = None, {} if definition is None else as_object(definition.get("spec"))
    for _, version in enumerate_objects(spec.get("versions")):
        if version.get("name") == kind.version:
            paths = as_object(as_object(version.get("subresources")).get("scale"))
            desired, current = paths.get("specReplicasPath"), paths.get("statusReplicasPath")
            if isinstance(desired, str) and desired:
                scale = Scale(desired, current if isinstance(current, str) else "")
    return ConventionalKind((kind.version,), replicas=scale, pods=())


def assemble_chain(
    customizations: Customizations,
    webhooks: Layer,
    interpreters: Sequence[Interpreter],
    runner: Runner,
    *,
    bundle: bool = True,
    conventions: ConventionsMode = ConventionsMode.OFF,
    observe: Observe = ignore_call,
    traces: bool = False,
) -> Chain:
    """Return the chain: customizations in Lua, webhooks, Python interpreters, bundle, native interpreters, conventions.

    Args:
        customizations: The customizations in a store, which has CustomResourceDefinitions, too.
        webhooks: The webhooks of hook configurations.
        interpreters: Python interpreters of users.
        runner: Runs the scripts.
        bundle: Whether to include the bundle.
        conventions: The operations to answer for kinds that no other layer knows.
        observe: Called after each call of a script.
        traces: Add the answers of webhooks and scripts to the chain's answers.
    """
    layers: Final[list[Layer]] = [
        LuaLayer("lua", customizations.rules, runner, observe=observe),
        webhooks,
        PythonLayer(interpreters),
    ]
    if bundle:
        layers.append(BundleLayer(runner, observe=observe, definitions=customizations.store))
    layers.append(NativeLayer())
    if conventions is not ConventionsMode.OFF:
        layers.append(ConventionsLayer(customizations.store, conventions))
    return Chain(layers, traces=traces)
