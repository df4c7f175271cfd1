"""Reads the rules of customizations and of ``karmada-config``: one script for each kind and operation.

It also recognizes scripts that are in the wrong place: those of Argo CD, and those of another operation.

Sources: karmada docs/proposals/runtime-value-retention (``RuntimeValueRetention``); karmada v1.16
pkg/apis/config/v1alpha1 (``ResourceInterpreterCustomization``),
pkg/resourceinterpreter/customized/declarative/configmanager.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from fleethook.cluster.manifests.yaml_decoding_and_lines import ManifestError, read_values
from fleethook.cluster.store import key_of
from fleethook.engines.interpret.lua.lua_machine import LoadedScript, LuaError, Machine
from fleethook.engines.interpret.lua.script_parser import Script, parse_script, wrap_body
from fleethook.engines.interpret.lua.script_scanner_and_rewriter import LuaSyntaxError
from fleethook.model.formats.field_errors import FieldError
from fleethook.model.gvk import GroupVersionKind, parse_api_version
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.karmada import CONFIG_MAP, CONFIG_MAP_NAME, CUSTOMIZATION, Operation

OBJECT: Final = "obj"
"""The global with the resource in Argo CD's scripts."""

_DOCUMENTS: Final = frozenset({"desiredObj", "observedObj", "runtimeObj", "statusItems", "desiredReplica"})
"""The usual names of the parameters of Karmada's functions."""
_HEALTH: Final = re.compile(
    r"""(?i:\bstatus)["']?\]?\s*=\s*["'](?:Healthy|Progressing|Degraded|Suspended|Missing|Unknown)["']"""
)


def explain_misplaced(script: Script, text: str) -> str:
    """Return the mistake of a script that belongs to another operation or to Argo CD, ``""`` if it has none.

    Args:
        script: The parsed script, without the function of its operation.
        text: Its source.
    """
    if reads_documents(script):
        return ""
    if others := sorted(script.assigned & _MEMBER_OF.keys()):
        places = " and ".join(f"spec.customizations.{_MEMBER_OF[name]}.luaScript" for name in others)
        return f"the script defines {' and '.join(others)}: move it to {places} of a ResourceInterpreterCustomization"
    line = script.reads.get(OBJECT)
    if not line and not _HEALTH.search(text):
        return ""
    where = f"it reads the global {OBJECT} (line {line})" if line else "it sets a status of Argo CD"
    return (
        f"the script is one of Argo CD, because {where}: convert the health.lua or the argocd-cm with `fleethook "
        "interpret convert --from argocd`"
    )


def reads_documents(script: Script) -> bool:
    """Return whether a script reads a global that has the name of a document of Karmada's functions."""
    return not script.reads.keys().isdisjoint(_DOCUMENTS)


# Lua truncates longer names in its messages.
_MAX_NAME_LENGTH: Final = 55


class ScriptFunction(NamedTuple):
    """The Lua function of an operation."""

    operation: Operation
    member: str
    """Its member of ``spec.customizations``."""
    name: str
    parameters: tuple[str, ...]
    """The usual names of its parameters."""
    results: int = 1


FUNCTIONS: Final = (
    ScriptFunction(Operation.RETAIN, "retention", "Retain", ("desiredObj", "observedObj")),
    ScriptFunction(Operation.REPLICA, "replicaResource", "GetReplicas", ("desiredObj",), 2),
    ScriptFunction(Operation.COMPONENT, "componentResource", "GetComponents", ("desiredObj",)),
    ScriptFunction(Operation.REVISE_REPLICA, "replicaRevision", "ReviseReplica", ("desiredObj", "desiredReplica")),
    ScriptFunction(Operation.STATUS, "statusReflection", "ReflectStatus", ("observedObj",)),
    ScriptFunction(Operation.AGGREGATE_STATUS, "statusAggregation", "AggregateStatus", ("desiredObj", "statusItems")),
    ScriptFunction(Operation.HEALTH, "healthInterpretation", "InterpretHealth", ("observedObj",)),
    ScriptFunction(Operation.DEPENDENCY, "dependencyInterpretation", "GetDependencies", ("desiredObj",)),
)
FUNCTION_OF: Final = {function.operation: function for function in FUNCTIONS}
_BY_MEMBER: Final = {function.member: function for function in FUNCTIONS}
_MEMBER_OF: Final = {function.name: function.member for function in FUNCTIONS}

ALSO_FOR: Final = "fleethook.io/also-for"
"""An annotation of a customization with the further kinds that it is for, separated by commas. An entry is another
apiVersion of its kind, or an apiVersion and kinds: ``group/v2, group/v1 Other Third``."""

_GLOBALS: Final = ("desiredObj", "runtimeObj", "observedObj")
RETENTION_SCRIPTS: Final = ("health.lua", "retention.lua")
"""The members of a RuntimeValueRetention that may have its script. The proposal uses ``health.lua``."""


class CustomizationRule(NamedTuple):
    """One script for one kind and operation."""

    kind: GroupVersionKind
    function: ScriptFunction
    source: str
    """Its object, such as ``ResourceInterpreterCustomization foo``."""
    place: str
    """Its path in the object."""
    program: LoadedScript
    script: Script
    with_globals: bool = False
    """Whether the documents are also globals, as in the proposal."""

    @property
    def location(self) -> str:
        """The place of its answer in errors, such as ``foo/healthInterpretation:2``: a line of the script."""
        function = self.script.functions.get(self.function.name)
        if function is None:
            return self.program.name
        is_only = function.returns and len(function.returned) == 1
        return f"{self.program.name}:{function.returned[0] if is_only else function.line}"

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the script that runs."""
        return self.program.id.partition(":")[0]


class ParsedRules(NamedTuple):
    """The rules of an object, and its problems."""

    rules: list[CustomizationRule]
    problems: list[FieldError]


def read_target(spec: Mapping[str, JSON]) -> GroupVersionKind | None:
    """Return the kind that the spec of a customization names, None without a valid one."""
    return _read_kind(as_object(spec.get("target")), "spec.target", [])


def read_customization(document: JSONObject) -> ParsedRules:
    """Return the rules of a ResourceInterpreterCustomization."""
    spec = as_object(document.get("spec"))
    target = as_object(spec.get("target"))
    found = ParsedRules([], [])
    kind = _read_kind(target, "spec.target", found.problems)
    name = str(as_object(document.get("metadata")).get("name") or "")
    customizations = spec.get("customizations")
    if not isinstance(customizations, dict):
        found.problems.append(FieldError("spec.customizations", "Required value: give at least one rule"))
        return found
    for member, value in customizations.items():
        place = f"spec.customizations.{member}.luaScript"
        function = _BY_MEMBER.get(member)
        if function is None:
            known = ", ".join(_BY_MEMBER)
            found.problems.append(FieldError(f"spec.customizations.{member}", f"unknown rule: use one of {known}"))
            continue
        text = as_object(value).get("luaScript")
        if text in (None, ""):
            continue
        if not isinstance(text, str):
            found.problems.append(FieldError(place, "Invalid value: must be a string"))
            continue
        _add_rule(found, kind, function, text, (f"ResourceInterpreterCustomization {name}", place), f"{name}/{member}")
    for more in _list_other_kinds(document, kind.kind if kind is not None else ""):
        found.rules.extend([rule._replace(kind=more) for rule in found.rules if rule.kind == kind])
    return found


def _list_other_kinds(document: JSONObject, kind: str) -> Iterator[GroupVersionKind]:
    annotations = as_object(as_object(document.get("metadata")).get("annotations"))
    for words in (entry.split() for entry in str(annotations.get(ALSO_FOR) or "").split(",")):
        for name in words[1:] or (words and [kind]):
            yield GroupVersionKind(*parse_api_version(words[0]), name)


# The reason of a YAML error may quote a value of up to 8 MiB.
_MAX_REASON_LENGTH: Final = 1_000
_RETENTION_KEY: Final = "retention.customizations"


def read_config_map(document: JSONObject) -> ParsedRules:
    """Return the rules of a ``karmada-config`` ConfigMap."""
    rules = ParsedRules([], [])
    text = as_object(document.get("data")).get(_RETENTION_KEY)
    if text is None:
        return rules
    place = f"data[{_RETENTION_KEY}]"
    if not isinstance(text, str):
        rules.problems.append(FieldError(place, "Invalid value: must be a string"))
        return rules
    try:
        values = [document.value for document in read_values(text, source=place)]
    except ManifestError as error:
        rules.problems.append(FieldError(place, f"line {error.line}: {error.reason[:_MAX_REASON_LENGTH]}"))
        return rules
    entries = [entry for value in values for entry in (value if isinstance(value, list) else [value])]
    first: dict[GroupVersionKind, str] = {}
    for index, entry in enumerate(entry for entry in entries if entry is not None):
        _read_retention(rules, entry, f"{place}[{index}]", first)
    return rules


def _read_retention(found: ParsedRules, entry: JSON, place: str, first: dict[GroupVersionKind, str]) -> None:
    if not isinstance(entry, dict):
        found.problems.append(FieldError(place, "is not a RuntimeValueRetention: expected an object"))
        return
    kind = _read_kind(entry, place, found.problems)
    texts = {name: entry[name] for name in RETENTION_SCRIPTS if entry.get(name) not in (None, "")}
    problem = _find_retention_problem(entry, texts)
    if problem:
        found.problems.append(FieldError(place, problem))
        return
    name, text = next(iter(texts.items()))
    if not isinstance(text, str):
        found.problems.append(FieldError(f"{place}.{name}", "Invalid value: must be a string"))
    elif kind in first:
        what = f"{kind.api_version} {kind.kind}"
        found.problems.append(FieldError(place, f"{what} is already defined at {first[kind]}: remove one of them"))
    elif kind is not None:
        first[kind] = place
        source = ("ConfigMap karmada-config", f"{place}.{name}")
        _add_rule(
            found, kind, FUNCTION_OF[Operation.RETAIN], text, source, f"karmada-config/{kind.kind}", retention=True
        )


def _find_retention_problem(entry: JSONObject, texts: JSONObject) -> str:
    unknown = sorted(str(name) for name in entry.keys() - {"apiVersion", "kind", *RETENTION_SCRIPTS})
    if unknown:
        return f"unknown members: {', '.join(unknown)}"
    if not texts:
        return f"has no script: give one as {RETENTION_SCRIPTS[1]}"
    if len(texts) > 1 and len({text for text in texts.values() if isinstance(text, str)}) != 1:
        return f"has two scripts that differ, {' and '.join(texts)}: give one"
    return ""


def _read_kind(target: Mapping[str, JSON], place: str, problems: list[FieldError]) -> GroupVersionKind | None:
    missing = [name for name in ("apiVersion", "kind") if not isinstance(target.get(name), str) or not target[name]]
    problems += (FieldError(f"{place}.{name}", f"Required value: {name} of the resources") for name in missing)
    if missing:
        return None
    return GroupVersionKind(*parse_api_version(target["apiVersion"]), target["kind"])


def _add_rule(
    found: ParsedRules,
    kind: GroupVersionKind | None,
    function: ScriptFunction,
    text: str,
    source: tuple[str, str],
    name: str,
    *,
    retention: bool = False,
) -> None:
    try:
        script = _parse_rule_script(text, function.name if retention else "")
    except LuaSyntaxError as error:
        found.problems.append(FieldError(source[1], f"Lua script error: line {error.line}: {error}"))
        return
    mistake = _find_mistake(script, text, function, retention=retention)
    if mistake:
        found.problems.append(FieldError(source[1], mistake))
        return
    digest = hashlib.sha256(script.runnable.encode()).hexdigest()
    own_globals = bool(script.assigned & known_globals()) or "_G" in text
    program = LoadedScript(f"{digest}:{name}", name[-_MAX_NAME_LENGTH:], script.runnable, own_globals)
    try:
        _get_machine().compile(program)
    except LuaError as error:
        found.problems.append(FieldError(source[1], f"Lua script error: {error}"))
        return
    if kind is not None:
        found.rules.append(CustomizationRule(kind, function, *source, program, script, retention))


@lru_cache(maxsize=4096)
def _parse_rule_script(text: str, body_for: str) -> Script:
    """Return a parsed script. If it does not define the function ``body_for``, wrap it as the body of that function.

    It stays as it is if it cannot be such a body, or belongs to another operation or to Argo CD.
    """
    known = known_globals()
    if not body_for:
        return parse_script(text, known=known)
    known |= set(_GLOBALS)
    parsed = parse_script(text, known=known)
    # A script that returns a value without reading the documents is no body: the result would fail at each call.
    is_body = reads_documents(parsed) or "return" not in text
    if body_for in parsed.assigned or not is_body or explain_misplaced(parsed, text):
        return parsed
    return parse_script(wrap_body(text, name=body_for, parameters=_GLOBALS[:2]), known=known)


def _find_mistake(script: Script, text: str, function: ScriptFunction, *, retention: bool) -> str:
    """Return the reason why a script does not define its function, ``""`` if it does."""
    name = function.name
    if name in script.assigned:
        return ""
    mistake = explain_misplaced(script, text)
    if not mistake and reads_documents(script):
        mistake = (
            f"the script is only the body of the function: write `function {name}({', '.join(function.parameters)})` "
            "before it and `end` after it"
        )
    mistake = mistake or f"the script has to define it{', or be its body and use desiredObj' if retention else ''}"
    return f"not found function {name}: {mistake}"


@lru_cache(maxsize=1)
def _get_machine() -> Machine:
    """Return the machine that compiles scripts for validation; it runs none."""
    return Machine()


@lru_cache(maxsize=1)
def known_globals() -> frozenset[str]:
    """Return the names of the predefined globals of scripts."""
    return _get_machine().names()


def describe_object(value: Any) -> str:
    """Return the name of an object in messages: kind, namespace and name."""
    metadata = as_object(value.get("metadata"))
    namespace = metadata.get("namespace")
    return f"{value.get('kind')} {f'{namespace}/' if namespace else ''}{metadata.get('name')}"


def has_scripts(document: JSONObject) -> bool:
    """Return whether an object is a customization or the ConfigMap ``karmada-config``."""
    key = key_of(document)
    return key.group_kind == CUSTOMIZATION or (key.group_kind, key.name) == (CONFIG_MAP, CONFIG_MAP_NAME)


def read_object(document: JSONObject) -> ParsedRules:
    """Return the rules of a customization or of ``karmada-config``, and its problems."""
    is_customization = key_of(document).group_kind == CUSTOMIZATION
    return read_customization(document) if is_customization else read_config_map(document)
