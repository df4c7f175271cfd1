"""Customizations: the last valid version of each in the store, and their admission."""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from fleethook.cluster.store import ObjectKey, Store, Stored, StoreView, key_of
from fleethook.engines.interpret.lua.customization_rules_and_configmap import (
    CustomizationRule,
    ParsedRules,
    describe_object,
    read_object,
)
from fleethook.engines.interpret.lua.lua_machine import LuaError
from fleethook.engines.interpret.lua.script_layer_and_runner import Rules, Runner, index_rules
from fleethook.engines.interpret.lua.script_warnings import list_findings
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import refuse_problems
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response, not_for_review
from fleethook.model.formats.field_errors import FieldError
from fleethook.model.gvk import GroupKind, GroupVersionKind
from fleethook.model.json import JSONObject
from fleethook.model.karmada import CONFIG_MAP, CONFIG_MAP_NAME, CUSTOMIZATION, Operation
from fleethook.server.metrics import Gauges

if TYPE_CHECKING:
    from fleethook.server.health import Check

_log: Final = logging.getLogger(__name__)


class Refused(NamedTuple):
    """An invalid object; an earlier version of it may be in use."""

    document: JSONObject
    problems: tuple[FieldError, ...]
    in_use: bool
    """Whether an earlier version is in use."""

    @property
    def text(self) -> str:
        """The message for logs and readiness."""
        used = "invalid, its last valid version stays in use" if self.in_use else "invalid, not used"
        found = "; ".join(f"{problem.field}: {problem.text}" for problem in self.problems)
        return f"{describe_object(self.document)}: {used}: {found}"


class Customizations:
    """The customizations of users: ResourceInterpreterCustomizations and the ConfigMap ``karmada-config``.

    Attributes:
        store: The store that has them.
    """

    def __init__(self, store: Store, *, namespace: str) -> None:
        """Follow the store.

        Args:
            store: ResourceInterpreterCustomizations and ConfigMaps.
            namespace: The namespace of ``karmada-config``.
        """
        self.store: Final = store
        self._namespaces: Final = ("", namespace)
        self._good: Final[dict[ObjectKey, list[CustomizationRule]]] = {}
        self._refused: Final[dict[ObjectKey, Refused]] = {}
        self._rules: Rules | None = None
        store.subscribe(self._update)

    def _update(self, key: ObjectKey, _before: Stored | None, after: JSONObject | None) -> None:
        if key.cluster or not self._has_rules(key):
            return
        if after is None:
            self._good.pop(key, None)
            self._refused.pop(key, None)
            self._rules = None
            return
        parsed_rules = read_object(after)
        if parsed_rules.problems:
            self._refuse(key, after, parsed_rules)
            return
        self._good[key] = parsed_rules.rules
        self._rules = None
        self._refused.pop(key, None)

    def _has_rules(self, key: ObjectKey) -> bool:
        if key.group_kind == CUSTOMIZATION:
            return True
        return key.group_kind == CONFIG_MAP and key.name == CONFIG_MAP_NAME and key.namespace in self._namespaces

    def _refuse(self, key: ObjectKey, document: JSONObject, found: ParsedRules) -> None:
        refused = Refused(document, tuple(found.problems), key in self._good)
        self._refused[key] = refused
        _log.error("customization refused: %s", refused.text)

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

    def checks(self) -> Iterator["Check"]:
        """Yield a check of readiness for each refused object. The server stays ready."""
        from fleethook.server.health import Check  # noqa: PLC0415 - commands do not need FastAPI

        for refused in self._refused.values():
            yield Check("customizations", ok=True, detail=refused.text)

    def collectors(self) -> Iterator[Gauges]:
        """Yield the gauges of `counts`."""
        yield Gauges("fleethook_scripts", "Lua scripts of customizations in use.", lambda: [({}, self.counts()[0])])
        yield Gauges(
            "fleethook_customizations_refused",
            "Customizations whose newest version cannot be used; /readyz names them and their errors.",
            lambda: [({}, self.counts()[1])],
        )


def list_problems(parsed: ParsedRules, runner: Runner) -> Iterator[FieldError]:
    """Yield the problems of an object with scripts, and those of the top levels of its scripts, which run."""
    yield from parsed.problems
    for rule in parsed.rules:
        name = rule.function.name
        try:
            functions = runner.try_at_once(rule.program)
        except LuaError as error:
            yield FieldError(rule.place, f"its top level fails: {error}")
        else:
            if name not in functions:
                yield FieldError(rule.place, f"there is no function {name} after its top level has run")


def validate_scripts(
    request: AdmissionRequest, *, store: StoreView, runner: Runner, namespace: str
) -> Response | Callable[[], Response]:
    """Answer the review of an object with scripts, with all of its problems.

    Suspicious code is a warning. Every ConfigMap except ``karmada-config`` is admitted without reading it.

    Args:
        request: The review.
        store: The other customizations.
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
    others = list(store.each("", CUSTOMIZATION)) if group_kind == CUSTOMIZATION else []
    return partial(_judge_scripts, completed, others, runner)


def _judge_scripts(document: JSONObject, others: Iterable[JSONObject], runner: Runner) -> Response:
    """Return the answer to the review of an object with scripts. It compiles them, and reads nothing that changes."""
    parsed_rules = read_object(document)
    problems = [*list_problems(parsed_rules, runner), *find_conflicts(document, parsed_rules, others)]
    warnings = [f"{rule.place}: {text}" for rule in parsed_rules.rules for text in list_findings(rule)]
    return refuse_problems(problems, warnings=warnings)


def _skip_other_objects(request: AdmissionRequest, namespace: str) -> Response | None:
    """Return the answer for an object that has no scripts or cannot be reviewed, None for other objects."""
    answer = not_for_review(request, (CONFIG_MAP, CUSTOMIZATION))
    if answer is not None or request.kind.kind != CONFIG_MAP.kind:
        return answer
    metadata = request.object["metadata"]
    place = metadata.get("namespace") or request.namespace, metadata.get("name") or request.name
    return None if place == (namespace, CONFIG_MAP_NAME) else admission.allowed()


def find_conflicts(document: JSONObject, parsed: ParsedRules, others: Iterable[JSONObject]) -> Iterator[FieldError]:
    """Yield the rules that another customization also has, except dependencies, because the layer unites these."""
    key = key_of(document)
    mine: dict[tuple[GroupVersionKind, Operation], CustomizationRule] = {
        (rule.kind, rule.function.operation): rule
        for rule in parsed.rules
        if rule.function.operation is not Operation.DEPENDENCY
    }
    for other in others:
        if key_of(other) == key:
            continue
        for rule in read_object(other).rules:
            same = mine.get((rule.kind, rule.function.operation))
            if same is not None:
                operation, existing = rule.function.operation, describe_object(other)
                text = f"conflicting with InterpreterOperation({operation}) of existing {existing}"
                yield FieldError(same.place, text)
