"""Admits objects with scripts: ResourceInterpreterCustomizations and the ConfigMap ``karmada-config``."""

from collections.abc import Iterable, Iterator

from fleethook.cluster.store import StoreView
from fleethook.cluster.store.store import key_of
from fleethook.engines.interpret.hooks.hook_configuration_admission import refuse_problems
from fleethook.engines.interpret.lua.customizations import read_object
from fleethook.engines.interpret.lua.rules import ParsedRules, Rule, RuleProblem, describe_object, list_findings
from fleethook.engines.interpret.lua.runner import Runner
from fleethook.engines.interpret.lua.vm import LuaError
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response, not_for_review
from fleethook.model.formats.field_errors import Problem
from fleethook.model.gvk import GroupKind, GroupVersionKind
from fleethook.model.json import JSONObject
from fleethook.model.karmada import CONFIG_MAP, CONFIG_MAP_NAME, CUSTOMIZATION, Operation
from fleethook.work.slices import Slice, Sliced


def validate_scripts_in_slices(
    request: AdmissionRequest, *, store: StoreView, runner: Runner, namespace: str
) -> Sliced[Response]:
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
