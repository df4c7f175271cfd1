"""Customizations: the last valid version of each in the store, events about refused versions, and their admission."""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from fleethook.cluster.store import ObjectKey, Store, Stored, StoreView
from fleethook.cluster.store.store import key_of
from fleethook.engines.interpret.hooks.hook_configuration import refuse_problems
from fleethook.engines.interpret.lua.layer import Rules, index_rules
from fleethook.engines.interpret.lua.rules import (
    ParsedRules,
    Rule,
    RuleProblem,
    describe_object,
    list_findings,
    read_config_map,
    read_customization,
)
from fleethook.engines.interpret.lua.runner import Runner
from fleethook.engines.interpret.lua.vm import LuaError
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response, not_for_review
from fleethook.model.formats.field_errors import Problem
from fleethook.model.gvk import GroupKind, GroupVersionKind
from fleethook.model.json import JSONObject, as_object
from fleethook.model.karmada import CONFIG_MAP, CONFIG_MAP_NAME, CUSTOMIZATION, Operation
from fleethook.work.pausing import Slice, Work

_log: Final = logging.getLogger(__name__)


class Refused(NamedTuple):
    """An invalid object; an earlier version of it may be in use."""

    document: JSONObject
    problems: tuple[RuleProblem, ...]
    in_use: bool
    """Whether an earlier version is in use."""

    @property
    def text(self) -> str:
        """The message for logs, Events and readiness."""
        used = "invalid, its last valid version stays in use" if self.in_use else "invalid, not used"
        found = "; ".join(f"{problem.place}: {problem.text}" for problem in self.problems)
        return f"{describe_object(self.document)}: {used}: {found}"


class Customizations:
    """The customizations of users: ResourceInterpreterCustomizations and the ConfigMap ``karmada-config``."""

    def __init__(self, store: Store, *, namespace: str) -> None:
        """Follow the store.

        Args:
            store: ResourceInterpreterCustomizations and ConfigMaps.
            namespace: The namespace of ``karmada-config``.
        """
        self._namespaces: Final = ("", namespace)
        self._good: Final[dict[ObjectKey, list[Rule]]] = {}
        self._refused: Final[dict[ObjectKey, Refused]] = {}
        self._rules: Rules | None = None
        self.changed: Final = asyncio.Event()
        """Set whenever the refused objects change."""
        store.subscribe(self._update)

    def _update(self, key: ObjectKey, _before: Stored | None, after: JSONObject | None) -> None:
        if key.cluster or not self._has_rules(key):
            return
        if after is None:
            self._good.pop(key, None)
            self._clear_refusal(key)
            self._rules = None
            return
        found = read_object(key, after)
        if found.problems:
            self._refuse(key, after, found)
            return
        self._good[key] = found.rules
        self._rules = None
        self._clear_refusal(key)

    def _has_rules(self, key: ObjectKey) -> bool:
        if key.group_kind == CUSTOMIZATION:
            return True
        return key.group_kind == CONFIG_MAP and key.name == CONFIG_MAP_NAME and key.namespace in self._namespaces

    def _refuse(self, key: ObjectKey, document: JSONObject, found: ParsedRules) -> None:
        refused = Refused(document, tuple(found.problems), key in self._good)
        self._refused[key] = refused
        self.changed.set()
        _log.error("customization refused: %s", refused.text)

    def _clear_refusal(self, key: ObjectKey) -> None:
        if self._refused.pop(key, None) is not None:
            self.changed.set()

    def rules(self) -> Rules:
        """Return the rules by kind and operation. Customizations come first, by name, then the ConfigMap."""
        if self._rules is None:
            ordered = sorted(self._good.items(), key=lambda item: (item[0].group_kind == CONFIG_MAP, item[0].name))
            self._rules = index_rules(rule for _, rules in ordered for rule in rules)
        return self._rules

    def refused(self) -> Iterator[Refused]:
        """Yield the objects that are refused now."""
        yield from self._refused.values()

    def counts(self) -> tuple[int, int]:
        """Return the number of scripts in use and the number of refused objects."""
        return sum(map(len, self._good.values())), len(self._refused)


def read_object(key: ObjectKey, document: JSONObject) -> ParsedRules:
    """Return the rules of a customization or of ``karmada-config``, and its problems."""
    if key.group_kind == CUSTOMIZATION:
        return read_customization(document)
    return read_config_map(document)


if TYPE_CHECKING:
    from fleethook.cluster.events import Recorder, Reference

REASON = "CustomizationRefused"


async def record_refusals(customizations: Customizations, recorder: "Recorder") -> None:
    """Record an Event whenever the problems of a customization change, until cancelled."""
    recorded: dict[tuple[str, str, str], str] = {}
    while True:
        customizations.changed.clear()
        current: dict[tuple[str, str, str], str] = {}
        for refused in list(customizations.refused()):
            about = _make_reference(refused.document)
            key = about.kind, about.namespace, about.name
            current[key] = refused.text
            if recorded.get(key) != refused.text:
                await recorder.record(about, "Warning", REASON, refused.text)
        recorded = current
        await customizations.changed.wait()


def _make_reference(document: object) -> "Reference":
    from fleethook.cluster.events import Reference  # noqa: PLC0415 - see fleethook.cluster

    object_ = as_object(document)
    metadata = as_object(object_.get("metadata"))
    names = (str(metadata.get(name) or "") for name in ("namespace", "name", "uid"))
    return Reference(str(object_.get("apiVersion")), str(object_.get("kind")), *names)


def validate_scripts_in_slices(
    request: AdmissionRequest, *, store: StoreView, runner: Runner, namespace: str
) -> Work[Response]:
    """Answer the review of an object with scripts, with all of its problems.

    Suspicious code is a warning. Every ConfigMap except ``karmada-config`` is admitted without reading it.

    Args:
        request: The review.
        store: The other customizations; read in one slice, so the verdict does not depend on later changes.
        runner: Compiles the scripts.
        namespace: The namespace of ``karmada-config``.
    """
    refusal = _skip_other_objects(request, namespace)
    if refusal is not None:
        return refusal
    document: JSONObject = request.object
    metadata = document["metadata"]
    group_kind = GroupKind(request.kind.group, request.kind.kind)
    completed = {
        **document,
        "apiVersion": f"{group_kind.group}/v1alpha1" if group_kind.group else "v1",
        "kind": group_kind.kind,
        "metadata": {**metadata, "name": metadata.get("name") or request.name},
    }
    # Compiling the scripts takes a slice of its own.
    yield
    found = read_object(key_of(completed), completed)
    problems = [*found.problems]
    for rule in found.rules:
        try:
            runner.try_at_once(rule.program)
        except LuaError as error:
            problems.append(RuleProblem(rule.place, f"Lua script error: {error}"))
        yield
    yield Slice.READS_STORE
    others = list(store.each("", CUSTOMIZATION)) if group_kind == CUSTOMIZATION else []
    yield Slice.PURE
    problems += _find_conflicts(completed, found, others)
    warnings = [f"{rule.place}: {text}" for rule in found.rules for text in list_findings(rule)]
    return refuse_problems((Problem(*problem) for problem in problems), warnings=warnings)


def _skip_other_objects(request: AdmissionRequest, namespace: str) -> Response | None:
    """Return the answer for an object that has no scripts or cannot be reviewed, None for other objects."""
    answer = not_for_review(request, (CONFIG_MAP, CUSTOMIZATION))
    if answer is not None or request.kind.kind != CONFIG_MAP.kind:
        return answer
    metadata = request.object["metadata"]
    place = metadata.get("namespace") or request.namespace, metadata.get("name") or request.name
    return None if place == (namespace, CONFIG_MAP_NAME) else admission.allowed()


def _find_conflicts(document: JSONObject, found: ParsedRules, others: Iterable[JSONObject]) -> Iterator[RuleProblem]:
    """Yield the rules that another customization also has, except dependencies, because the layer unites these."""
    key = key_of(document)
    mine: dict[tuple[GroupVersionKind, Operation], Rule] = {
        (rule.kind, rule.function.operation): rule
        for rule in found.rules
        if rule.function.operation is not Operation.DEPENDENCY
    }
    for other in others:
        if key_of(other) == key:
            continue
        for rule in read_object(key_of(other), other).rules:
            same = mine.get((rule.kind, rule.function.operation))
            if same is not None:
                operation, existing = rule.function.operation, describe_object(other)
                text = f"conflicting with InterpreterOperation({operation}) of existing {existing}"
                yield RuleProblem(same.place, text)
