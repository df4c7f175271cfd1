"""The declaration of a rule: the requests that it decides about, in the terms of a webhook configuration."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

from fleethook.cel import Activation, ExpressionError, Program, compile_condition
from fleethook.model.admission import AdmissionRequest, Operation
from fleethook.model.formats.labels import compile_selector, validate_selector
from fleethook.model.gvk import GroupKind, GroupVersionResource, guess_resource, parse_api_version
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.webhook_rules import (
    Rule,
    RuleAttributes,
    matches_group,
    matches_operation,
    matches_resource,
    matches_scope,
    matches_version,
)

FailurePolicy = Literal["Fail", "Ignore"]
SideEffects = Literal["None", "NoneOnDryRun"]
ScopeOfRule = Literal["*", "Namespaced", "Cluster"]

DEFAULT_TIMEOUT: Final = 5
# k8s.io/kubernetes/pkg/apis/admissionregistration/validation: 1 to 30 seconds, at most 64 matchConditions.
_MAX_TIMEOUT: Final = 30
_MAX_CONDITIONS: Final = 64
# The removal of a finalizer is an UPDATE. A rule that refuses it would keep an object that is being deleted.
NOT_DELETED: Final = "request.operation != 'UPDATE' || !has(object.metadata) || !has(object.metadata.deletionTimestamp)"
"""The match condition of rules that get updates, unless they declare one of the name ``not-being-deleted``."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_MAX_NAME_LENGTH: Final = 63
# k8s.io/apimachinery/pkg/util/validation, IsQualifiedName, without a prefix.
_CONDITION_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class RuleError(ValueError):
    """A rule cannot be used; the text has the place, the reason and the remedy."""


class Declaration(NamedTuple):
    """The requests that a rule decides about, and the properties of its webhook.

    Attributes:
        name: The name of the rule in webhook configurations, paths, metrics and logs.
        mutates: Whether the rule may change objects.
        group: The API group; ``*`` for all.
        version: The version; ``*`` for all.
        kind: The kind; ``""`` if the rule declares a resource instead.
        resource: The plural.
        operations: The operations.
        subresource: The subresource; ``""`` for the object itself.
        scope: Whether the objects have a namespace.
        namespace_selector: Selects by the labels of the object's namespace.
        object_selector: Selects by the labels of the object.
        conditions: The ``matchConditions`` by name. One of them excludes updates of objects that are being deleted.
        failure_policy: The answer of a rule that fails.
        side_effects: Whether the rule changes something outside of the object.
        timeout: The time limit in seconds.
        order: The position among the rules of a server; rules of the same order are sorted by name.
        follows: The kinds that the rule reads from the store, as apiVersion, kind and plural.
        inline: Whether the event loop of a server calls the rule.
    """

    name: str
    mutates: bool
    group: str
    version: str
    kind: str
    resource: str
    operations: tuple[str, ...]
    subresource: str
    scope: ScopeOfRule
    namespace_selector: JSONObject
    object_selector: JSONObject
    conditions: Mapping[str, Program]
    failure_policy: FailurePolicy
    side_effects: SideEffects
    timeout: int
    order: int
    follows: tuple[tuple[str, str, str], ...]
    inline: bool

    @property
    def followed(self) -> frozenset[GroupKind]:
        """The kinds of ``follows``."""
        return frozenset(GroupKind(parse_api_version(api_version)[0], kind) for api_version, kind, _ in self.follows)


class Options(NamedTuple):
    """The arguments of a decorator as the author wrote them; `Declaration` has the same members."""

    api_version: str
    kind: str
    on: str | Iterable[str]
    subresource: str
    scope: str
    namespace_selector: Mapping[str, Any] | None
    object_selector: Mapping[str, Any] | None
    match_conditions: Mapping[str, str] | None
    failure_policy: str | None
    side_effects: str
    timeout: int
    order: int
    follows: Sequence[Any]
    resource: str
    name: str | None
    inline: bool


def declare(options: Options, function_name: str, *, mutates: bool) -> Declaration:
    """Check the arguments of a decorator; raises RuleError."""
    _check_types(options)
    group, version, kind, resource = _read_kind(options)
    operations = _read_operations(options.on, mutates=mutates)
    conditions = dict(options.match_conditions or {})
    if "UPDATE" in operations:
        conditions.setdefault("not-being-deleted", NOT_DELETED)
    policy = options.failure_policy or ("Ignore" if mutates else "Fail")
    return Declaration(
        name=_check_name(options.name or function_name.strip("_").lower().replace("_", "-")),
        mutates=mutates,
        group=group,
        version=version,
        kind=kind,
        resource=resource,
        operations=operations,
        subresource=options.subresource,
        scope=_choose("scope", options.scope, get_args(ScopeOfRule)),
        namespace_selector=_read_selector("namespace_selector", options.namespace_selector),
        object_selector=_read_selector("object_selector", options.object_selector),
        conditions=_compile_conditions(conditions),
        failure_policy=_choose("failure_policy", policy, get_args(FailurePolicy)),
        side_effects=_choose("side_effects", options.side_effects, get_args(SideEffects)),
        timeout=_check_timeout(options.timeout),
        order=options.order,
        follows=_read_followed(options.follows),
        inline=options.inline,
    )


_TYPES: Final[Mapping[str, tuple[type, str]]] = {
    "api_version": (str, "text"),
    "kind": (str, "text"),
    "on": (Iterable, "operation or list of operations"),
    "subresource": (str, "text"),
    "match_conditions": (Mapping, "mapping from names to expressions"),
    "timeout": (int, "whole number of seconds"),
    "order": (int, "whole number"),
    "follows": (Sequence, "pair of apiVersion and kind, or list of pairs"),
    "resource": (str, "text"),
    "name": (str, "text"),
    "inline": (bool, "truth value"),
}
_OPTIONAL: Final = ("match_conditions", "name")


def _check_types(options: Options) -> None:
    for argument, (type_, noun) in _TYPES.items():
        value = getattr(options, argument)
        # In Python, a truth value is a number, too.
        fits = isinstance(value, type_) and isinstance(value, bool) == (type_ is bool)
        if not fits and not (value is None and argument in _OPTIONAL):
            raise RuleError(f"{argument}: {value!r} is no {noun}")


def _check_name(name: str) -> str:
    if len(name) > _MAX_NAME_LENGTH or not _NAME.fullmatch(name):
        raise RuleError(
            f"the name {name!r} is no DNS label: use at most {_MAX_NAME_LENGTH} lower-case letters, digits and "
            "hyphens, or give name="
        )
    return name


def _read_kind(options: Options) -> tuple[str, str, str, str]:
    """Return group, version, kind and resource. A name that starts in lower case is a resource."""
    group, version = parse_api_version(options.api_version)
    if options.api_version == "*":
        group = "*"
    _check_version(options.api_version, group, version)
    kind, resource = options.kind, options.resource
    if not resource and (kind == "*" or kind[:1].islower()):
        kind, resource = "", kind
    if not kind and not resource:
        raise RuleError("the rule names neither a kind nor a resource: give one such as 'Deployment' or 'deployments'")
    for name, _, part in (one.partition("/") for one in (kind, resource) if "/" in one):
        raise RuleError(f"'{name}/{part}' has a slash: give {name!r}, and subresource={part!r}")
    named = {"kind": kind.lower(), "resource": resource, "subresource": options.subresource}
    for argument, name in named.items():
        if name not in ("", "*") and not _NAME.fullmatch(name):
            raise RuleError(f"{argument}: {name!r} is no name of Kubernetes: use letters, digits and hyphens")
    return group, version, kind, resource or guess_resource(kind)


def _check_version(api_version: str, group: str, version: str) -> None:
    names = (one for one in (*group.split("."), version) if one not in ("", "*"))
    if not version or "/" in group or not all(map(_NAME.fullmatch, names)):
        raise RuleError(f"{api_version!r} is no apiVersion: give one such as 'apps/v1', 'v1' or '*/*'")


def _read_operations(on: str | Iterable[str], *, mutates: bool) -> tuple[str, ...]:
    known = get_args(Operation)
    operations = (on,) if isinstance(on, str) else tuple(on)
    if not operations:
        raise RuleError(f"on: the rule has no operation: give some of {', '.join(known)}")
    if operations == ("*",):
        operations = known
    for operation in operations:
        _choose("on", operation, known)
    if mutates and "DELETE" in operations:
        raise RuleError("on: a DELETE has no object to change: use @validate, or name other operations")
    return tuple(dict.fromkeys(operations))


def _choose(argument: str, value: Any, known: tuple[Any, ...]) -> Any:
    if value not in known:
        raise RuleError(f"{argument}: {value!r} is unknown: give {', '.join(known[:-1])} or {known[-1]}")
    return value


def _read_selector(argument: str, selector: Mapping[str, Any] | None) -> JSONObject:
    given = {} if selector is None else selector
    for unknown in (name for name in as_object(given) if name not in ("matchLabels", "matchExpressions")):
        raise RuleError(f"{argument}: {unknown!r} is unknown: give matchLabels or matchExpressions")
    for pointer, problem in validate_selector(given, argument):
        raise RuleError(f"{pointer}: {problem}")
    return dict(given)


def _compile_conditions(conditions: Mapping[Any, str]) -> Mapping[str, Program]:
    if len(conditions) > _MAX_CONDITIONS:
        raise RuleError(f"match_conditions: {len(conditions)} conditions are more than {_MAX_CONDITIONS}")
    for name in conditions:
        if not isinstance(name, str) or not _CONDITION_NAME.fullmatch(name):
            raise RuleError(f"match_conditions: {name!r} is no name: use letters, digits, '-', '_' and '.'")
    return {name: compile_cel(f"match_conditions[{name!r}]", one) for name, one in conditions.items()}


def compile_cel(argument: str, expression: str) -> Program:
    """Compile a CEL expression; raises RuleError."""
    if not isinstance(expression, str):
        raise RuleError(f"{argument}: {expression!r} is no text")
    try:
        return compile_condition(expression)
    except ExpressionError as error:
        raise RuleError(f"{argument}: {error}") from error


def _check_timeout(timeout: int) -> int:
    if not 1 <= timeout <= _MAX_TIMEOUT:
        raise RuleError(f"timeout: {timeout!r} is not a number of seconds from 1 to {_MAX_TIMEOUT}")
    return timeout


def _read_followed(follows: Sequence[Any]) -> tuple[tuple[str, str, str], ...]:
    """Return the followed kinds; the plural is guessed if it is missing."""
    given = (follows,) if follows and isinstance(follows[0], str) else tuple(follows)
    found: list[tuple[str, str, str]] = []
    for one in given:
        is_kind = isinstance(one, tuple | list) and len(one) in (2, 3) and all(isinstance(part, str) for part in one)
        if not is_kind or not one[1][:1].isupper():
            raise RuleError(f"follows: {one!r} is no pair of apiVersion and kind, such as ('v1', 'ConfigMap')")
        api_version, kind, *plural = one
        _check_version(api_version, *parse_api_version(api_version))
        found.append((api_version, kind, *(plural or [guess_resource(kind)])))
    return tuple(found)


def choose_resource(one: Declaration, document: Mapping[str, Any], subresource: str) -> str:
    """Return the resource of a rule if a request about an object has it, ``""`` if only the kind tells the resource."""
    kind = str(document.get("kind", "")).lower()
    # Without the last letter, a kind begins its plural, which has at most two letters more.
    is_similar = one.resource.startswith(kind[:-1]) and len(one.resource) <= len(kind) + 2
    is_own = kind == one.kind.lower() if one.kind else is_similar
    return one.resource if one.resource != "*" and (subresource or is_own) else ""


def bind_variables(request: AdmissionRequest, *, has_namespace: bool = True) -> Activation:
    """Return the variables of CEL expressions for a request, without an authorizer.

    Args:
        request: The request.
        has_namespace: Whether ``namespaceObject`` exists. It is null in match conditions.
    """
    described: JSONObject = {
        "kind": _describe(request.kind, "kind"),
        "resource": _describe(request.resource, "resource"),
        "subResource": request.sub_resource,
        "requestKind": _describe(request.request_kind or request.kind, "kind"),
        "requestResource": _describe(request.request_resource or request.resource, "resource"),
        "requestSubResource": request.request_sub_resource,
        "name": request.name,
        "namespace": request.namespace,
        "operation": request.operation,
        "userInfo": request.user,
        "dryRun": bool(request.dry_run),
        "options": request.decoded_options,
    }
    return Activation(
        object_=request.object, old_object=request.old_object, request=described, has_namespace=has_namespace
    )


def _describe(named: Any, member: str) -> JSONObject:
    return {"group": named.group, "version": named.version, member: getattr(named, member)}


def find_mismatch(declaration: Declaration, request: AdmissionRequest, namespace_labels: Mapping[str, str]) -> str:
    """Return why kube-apiserver does not send a request to a rule, ``""`` if it does.

    Raises:
        EvaluationError: A match condition has no result.
        PendingChecksError: A match condition needs an authorizer.
    """
    return (
        find_wrong_kind(declaration, request)
        or next(_list_unselected(declaration, request, namespace_labels), "")
        or _find_false_condition(declaration.conditions, request)
    )


def find_wrong_kind(declaration: Declaration, request: AdmissionRequest) -> str:
    """Return why the rules of a webhook do not match a request, ``""`` if they do."""
    return next(_list_mismatches(declaration, request), "")


def _is_namespace(request: AdmissionRequest) -> bool:
    """Return whether the object is a Namespace. Its reviews have its own name as the namespace."""
    return (request.kind.group, request.kind.kind) == ("", "Namespace")


def _list_mismatches(one: Declaration, request: AdmissionRequest) -> Iterator[str]:
    # A subresource has a kind of its own, such as Scale of autoscaling/v1, so only the resource tells its object.
    by_kind = one.kind if not one.subresource else ""
    group, version = _find_version(request)
    attributes = RuleAttributes(
        request.operation,
        GroupVersionResource(group, version, request.resource.resource),
        request.sub_resource,
        namespaced=bool(request.namespace) and not _is_namespace(request),
    )
    resource = ("*" if by_kind else one.resource, one.subresource)
    rule = Rule(frozenset(one.operations), frozenset({one.group}), frozenset({one.version}), (resource,), one.scope)
    if not matches_operation(rule, attributes):
        yield f"the operation is {request.operation}, not {' or '.join(one.operations)}"
    if not (matches_group(rule, attributes) and matches_version(rule, attributes)):
        yield f"the object is of {group or 'core'}/{version}, not of {one.group or 'core'}/{one.version}"
    # kube-apiserver knows only the resource, which is the same for a kind in another case.
    if by_kind and by_kind.lower() != request.kind.kind.lower():
        yield f"the kind is {request.kind.kind}, not {by_kind}"
    if not matches_resource(rule, attributes):
        if one.subresource not in ("*", request.sub_resource):
            yield f"the subresource is {request.sub_resource or 'none'}, not {one.subresource or 'none'}"
        else:
            yield f"the resource is {request.resource.resource}, not {one.resource}"
    if not matches_scope(rule, attributes):
        scope = "Namespaced" if attributes.namespaced else "Cluster"
        yield f"the object is {scope}, and the scope of the rule is {one.scope}"


def _find_version(request: AdmissionRequest) -> tuple[str, str]:
    """Return group and version of the resource; those of the kind for a review without a resource."""
    named = request.resource if request.resource.resource else request.kind
    return named.group, named.version


def _list_unselected(one: Declaration, request: AdmissionRequest, namespace_labels: Mapping[str, str]) -> Iterator[str]:
    labels = _read_labels(request.object or request.old_object) if _is_namespace(request) else namespace_labels
    if request.namespace and not compile_selector(one.namespace_selector)(labels):
        yield "namespace_selector does not select the labels of the namespace"
    selects = compile_selector(one.object_selector)
    if not any(selects(_read_labels(document)) for document in (request.object, request.old_object) if document):
        yield "object_selector does not select the labels of the object"


def _read_labels(document: JSON) -> Mapping[str, str]:
    return as_object(as_object(as_object(document).get("metadata")).get("labels"))


def _find_false_condition(conditions: Mapping[str, Program], request: AdmissionRequest) -> str:
    scope = bind_variables(request) if conditions else None
    return next(
        (
            f"match_conditions[{name!r}] is false"
            for name, one in conditions.items()
            if scope and not one.evaluate(scope)
        ),
        "",
    )
