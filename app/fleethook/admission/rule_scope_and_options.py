"""The declaration of a rule: the requests that it decides about, in the terms of a webhook configuration."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from fleethook.cel.compile_error_list import ExpressionError
from fleethook.cel.program import Program, compile_condition
from fleethook.model.admission import Operation
from fleethook.model.formats.names_and_labels import (
    NAMESPACE_LABEL,
    is_dns1123_label,
    label_key_problem,
    validate_selector,
)
from fleethook.model.gvk import GroupKind, guess_resource, parse_api_version
from fleethook.model.json import JSONObject, as_object

FailurePolicy = Literal["Fail", "Ignore"]
SideEffects = Literal["None", "NoneOnDryRun"]
ScopeOfRule = Literal["*", "Namespaced", "Cluster"]
Existing = Literal["admit", "refuse"]

DEFAULT_TIMEOUT: Final = 5
VALIDATING_OPERATIONS: Final = ("CREATE", "UPDATE")
MUTATING_OPERATIONS: Final = "CREATE"
"""The default of a mutating rule: many members of stored objects are immutable."""
VALIDATING_FAILURE_POLICY: Final = "Fail"
"""A rule that cannot decide must not let an object pass."""
MUTATING_FAILURE_POLICY: Final = "Ignore"
"""A missing default must not block a write, and a validating rule can refuse objects without it."""
# k8s.io/kubernetes/pkg/apis/admissionregistration/validation: 1 to 30 seconds, at most 64 matchConditions.
_MAX_TIMEOUT: Final = 30
_MAX_CONDITIONS: Final = 64
# The removal of a finalizer is an UPDATE. A rule that refuses it would keep an object that is being deleted.
NOT_DELETED: Final = "request.operation != 'UPDATE' || !has(object.metadata) || !has(object.metadata.deletionTimestamp)"
# The kubelet runs a static Pod without its mirror in the apiserver, so a refusal would stop nothing.
NO_MIRROR: Final = (
    "!(object == null ? oldObject : object).?metadata.?annotations[?'kubernetes.io/config.mirror'].hasValue()"
)
# kube-apiserver does not start if it cannot create its own ClusterRoles, and refuses a Service without its IPAddress.
NOT_BY_APISERVER: Final = "request.userInfo.?username.orValue('') != 'system:apiserver'"
SYSTEM_NAMESPACES: Final = ("kube-system", "kube-node-lease", "kube-public")
"""The namespaces that a rule sees only if it names them: the cluster could not repair itself in an outage of a rule."""
_CONTROL_PLANE: Final = (
    "/events", "events.k8s.io/events", "coordination.k8s.io/leases", "apiregistration.k8s.io/apiservices",
    "apiextensions.k8s.io/customresourcedefinitions", "authentication.k8s.io/*", "authorization.k8s.io/*",
    "admissionregistration.k8s.io/*", "apis.kcp.io/*", "core.kcp.io/*", "tenancy.kcp.io/*", "topology.kcp.io/*",
    "cache.kcp.io/*",
)  # fmt: skip
"""The resources that a rule sees only if it names them: a control plane needs them, or the server writes them."""
NO_CONTROL_PLANE: Final = (
    "[request.resource.group + '/' + request.resource.resource, request.resource.group + '/*']"
    f".all(one, !(one in {list(_CONTROL_PLANE)}))"
)
CONTROL_PLANE_TEXT: Final = "Events, Leases, APIServices, definitions, reviews of access, webhook configurations"
"""These resources, for people."""
DEFAULT_CONDITIONS: Final = frozenset({"not-being-deleted", "not-control-plane", "not-a-mirror", "not-by-apiserver"})
"""The names of the match conditions that rules have without declaring them."""


def is_control_plane(group: str, resource: str) -> bool:
    """Return whether a rule sees a resource only if it names it."""
    return not {f"{group}/{resource}", f"{group}/*"}.isdisjoint(_CONTROL_PLANE)


POD_SUBRESOURCES: Final = ("ephemeralcontainers", "resize")
"""The subresources that change the spec of a Pod, and whose requests have the whole Pod."""

# cel-go shows the line of the expression with a mark, in two further lines.
_CEL_ERROR: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*?)(?: \(in container ''\))?\n \| .*\n \| .*")
_CEL_PLACE: Final = r"line \1, column \2: \3"


class RuleError(ValueError):
    """A rule cannot be used; the text has the place, the reason and the remedy."""


class Declaration(msgspec.Struct, frozen=True):
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
        exempt: Namespaces whose objects the rule does not see.
        object_selector: Selects by the labels of the object.
        conditions: The ``matchConditions`` by name, with those that every rule has unless it declares one of the name:
            ``not-being-deleted``, ``not-control-plane`` for all resources, ``not-a-mirror`` for Pods, and
            ``not-by-apiserver`` for all others of the groups that kube-apiserver writes itself.
        failure_policy: The answer of a rule that fails.
        side_effects: Whether the rule changes something outside of the object.
        timeout: The time limit in seconds.
        order: The position among the rules of a server; rules of the same order are sorted by name.
        follows: The kinds that the rule reads from the store, as apiVersion, kind and plural.
        inline: Whether the event loop of a server calls the rule.
        existing: The answer to an update of an object that broke the rule before: ``admit`` or ``refuse``.
        templates: Whether a rule about Pods also sees the Pods in the templates of workloads.
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
    exempt: tuple[str, ...]
    object_selector: JSONObject
    conditions: Mapping[str, Program]
    failure_policy: FailurePolicy
    side_effects: SideEffects
    timeout: int
    order: int
    follows: tuple[tuple[str, str, str], ...]
    inline: bool
    existing: Existing
    templates: bool

    @property
    def subresources(self) -> tuple[str, ...]:
        """The subresources that it gets: a validating rule for Pods gets those that change the spec of a Pod."""
        validates_pods = (
            not self.mutates and "UPDATE" in self.operations and (self.group, self.resource) == ("", "pods")
        )
        return ("", *POD_SUBRESOURCES) if validates_pods and not self.subresource else (self.subresource,)

    @property
    def followed(self) -> frozenset[GroupKind]:
        """The kinds of ``follows``."""
        return frozenset(GroupKind(parse_api_version(api_version)[0], kind) for api_version, kind, _ in self.follows)


def declare(given: Mapping[str, Any], function_name: str, *, mutates: bool) -> Declaration:
    """Check the arguments of a decorator, of which each may have any type; raises RuleError."""
    _check_values(given)
    group, version, kind, resource = _read_kind(given)
    operations = _read_operations(given["on"], mutates=mutates)
    conditions = dict(given["match_conditions"] or {})
    if "UPDATE" in operations:
        conditions.setdefault("not-being-deleted", NOT_DELETED)
    if resource == "*" and any(group in ("*", one.partition("/")[0]) for one in _CONTROL_PLANE):
        conditions.setdefault("not-control-plane", NO_CONTROL_PLANE)
    if (group, resource) == ("", "pods") and given["subresource"] in ("", *POD_SUBRESOURCES):
        conditions.setdefault("not-a-mirror", NO_MIRROR)
    elif group in ("", "*") or group.endswith(".k8s.io"):
        conditions.setdefault("not-by-apiserver", NOT_BY_APISERVER)
    selector = _read_selector("namespace_selector", given["namespace_selector"])
    if namespaces := _read_namespaces(given["namespaces"]):
        wanted = {"key": NAMESPACE_LABEL, "operator": "In", "values": [*namespaces]}
        selector = {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), wanted]}
    sees_system = given["namespaces"] == "*" or list_named_namespaces(selector)
    if given["templates"] and (group, resource, given["subresource"]) != ("", "pods", ""):
        raise RuleError("templates: only a rule about Pods sees those in templates: give 'v1' and 'Pod'")
    name = given["name"] or function_name.strip("_").lower().replace("_", "-")
    if not is_dns1123_label(name):
        raise RuleError(
            f"the name {name!r} is no DNS label: use at most 63 lower-case letters, digits and hyphens, or give name="
        )
    return Declaration(
        name=name,
        mutates=mutates,
        group=group,
        version=version,
        kind=kind,
        resource=resource,
        operations=operations,
        namespace_selector=selector,
        exempt=() if sees_system else SYSTEM_NAMESPACES,
        object_selector=_read_selector("object_selector", given["object_selector"]),
        conditions=_compile_conditions(conditions),
        follows=_read_followed(given["follows"]),
        **{name: given[name] for name in _AS_GIVEN},
    )


_AS_GIVEN: Final = (
    "subresource", "scope", "failure_policy", "side_effects", "timeout", "order", "inline", "existing", "templates",
)  # fmt: skip
_CHOICES: Final[Mapping[str, tuple[Any, ...]]] = {
    "scope": get_args(ScopeOfRule),
    "failure_policy": get_args(FailurePolicy),
    "side_effects": get_args(SideEffects),
    "existing": get_args(Existing),
}
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
    "templates": (bool, "truth value"),
    "message": (str, "text"),
}
_OPTIONAL: Final = ("match_conditions", "name")


def _check_values(given: Mapping[str, Any]) -> None:
    for argument, (type_, noun) in _TYPES.items():
        value = given[argument]
        # In Python, a truth value is a number, too.
        fits = isinstance(value, type_) and isinstance(value, bool) == (type_ is bool)
        if not fits and not (value is None and argument in _OPTIONAL):
            raise RuleError(f"{argument}: {value!r} is no {noun}")
    for argument, known in _CHOICES.items():
        _choose(argument, given[argument], known)
    if not 1 <= given["timeout"] <= _MAX_TIMEOUT:
        raise RuleError(f"timeout: {given['timeout']!r} is not a number of seconds from 1 to {_MAX_TIMEOUT}")


def _choose(argument: str, value: Any, known: tuple[Any, ...]) -> None:
    if value not in known:
        raise RuleError(f"{argument}: {value!r} is unknown: give {', '.join(known[:-1])} or {known[-1]}")


def _read_kind(given: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return group, version, kind and resource. A name that starts in lower case is a resource."""
    group, version = parse_api_version(given["api_version"])
    if given["api_version"] == "*":
        group = "*"
    _check_version(given["api_version"], group, version)
    kind, resource = given["kind"], given["resource"]
    if not resource and (kind == "*" or kind[:1].islower()):
        kind, resource = "", kind
    if not kind and not resource:
        raise RuleError("the rule names neither a kind nor a resource: give one such as 'Deployment' or 'deployments'")
    for name, _, part in (one.partition("/") for one in (kind, resource) if "/" in one):
        raise RuleError(f"'{name}/{part}' has a slash: give {name!r}, and subresource={part!r}")
    named = {"kind": kind.lower(), "resource": resource, "subresource": given["subresource"]}
    for argument, name in named.items():
        if name not in ("", "*") and not is_dns1123_label(name):
            raise RuleError(f"{argument}: {name!r} is no name of Kubernetes: use letters, digits and hyphens")
    return group, version, kind, resource or guess_resource(kind)


def _check_version(api_version: str, group: str, version: str) -> None:
    names = (one for one in (*group.split("."), version) if one not in ("", "*"))
    if not version or "/" in group or not all(map(is_dns1123_label, names)):
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


def _read_selector(argument: str, selector: Mapping[str, Any] | None) -> JSONObject:
    given = {} if selector is None else selector
    for unknown in (name for name in as_object(given) if name not in ("matchLabels", "matchExpressions")):
        raise RuleError(f"{argument}: {unknown!r} is unknown: give matchLabels or matchExpressions")
    for pointer, problem in validate_selector(given, argument):
        raise RuleError(f"{pointer}: {problem}")
    return dict(given)


def _read_namespaces(namespaces: Any) -> tuple[str, ...]:
    """Return the named namespaces, none for None and ``*``."""
    if namespaces is None or namespaces == "*":
        return ()
    given = (namespaces,) if isinstance(namespaces, str) else namespaces
    if not isinstance(given, Sequence) or not given or not all(isinstance(one, str) for one in given):
        raise RuleError(f"namespaces: {namespaces!r} is no list of namespaces: give '*' for all, or some names")
    for one in given:
        if not is_dns1123_label(one):
            raise RuleError(f"namespaces: {one!r} is no name of a namespace")
    return tuple(given)


def list_named_namespaces(selector: Mapping[str, Any]) -> set[str]:
    """Return the namespaces that a selector names by their label; none if it may select others."""
    wanted = [
        expression for expression in selector.get("matchExpressions") or () if expression["key"] == NAMESPACE_LABEL
    ]
    names = {name for one in wanted if one["operator"] == "In" for name in one["values"]}
    return names | {name for key, name in (selector.get("matchLabels") or {}).items() if key == NAMESPACE_LABEL}


def selects_by_labels(declared: Declaration) -> bool:
    """Return whether the labels of namespaces decide, and not their names alone."""
    selector = declared.namespace_selector
    keys = {expression["key"] for expression in selector.get("matchExpressions") or ()} | {
        *(selector.get("matchLabels") or ())
    }
    return bool(keys - {NAMESPACE_LABEL})


def _compile_conditions(conditions: Mapping[Any, str]) -> Mapping[str, Program]:
    if len(conditions) > _MAX_CONDITIONS:
        raise RuleError(f"match_conditions: {len(conditions)} conditions are more than {_MAX_CONDITIONS}")
    for name in conditions:
        # k8s.io/kubernetes/pkg/apis/admissionregistration/validation: a qualified name, as the key of a label.
        if not isinstance(name, str) or label_key_problem(name):
            raise RuleError(f"match_conditions: {name!r} is no name: use letters, digits, '-', '_' and '.'")
    return {name: compile_cel(f"match_conditions[{name!r}]", one) for name, one in conditions.items()}


def compile_cel(argument: str, expression: str) -> Program:
    """Compile a CEL expression; raises RuleError."""
    if not isinstance(expression, str):
        raise RuleError(f"{argument}: {expression!r} is no text")
    try:
        return compile_condition(expression)
    except ExpressionError as error:
        text = _CEL_ERROR.sub(_CEL_PLACE, str(error)).replace("\n", "; ")
        raise RuleError(f"{argument}: {text}") from error


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
