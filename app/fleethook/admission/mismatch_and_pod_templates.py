"""The requests that kube-apiserver sends to a rule, and the Pods in the templates of workloads that it sees in them.

Without a rule about templates, a person applies a Deployment, and an event of its ReplicaSet tells that its Pods are
refused.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from fleethook.admission.rule_scope_and_options import Declaration
from fleethook.cel.program import Program, bind_variables
from fleethook.model.admission import AdmissionRequest, Response, StatusCause
from fleethook.model.formats.names_and_labels import NAMESPACE_LABEL, compile_selector, read_labels
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.rule_matching import EVERY


def find_mismatch(declaration: Declaration, request: AdmissionRequest, namespace_labels: Mapping[str, str]) -> str:
    """Return why kube-apiserver does not send a request to a rule, ``""`` if it does.

    Raises:
        EvaluationError: A match condition has no result.
    """
    return (
        find_rule_mismatch(declaration, request)
        or next(_list_unselected(declaration, request, namespace_labels), "")
        or _find_false_condition(declaration.conditions, request)
    )


def find_rule_mismatch(declaration: Declaration, request: AdmissionRequest) -> str:
    """Return why the rules of a webhook do not match a request, ``""`` if they do."""
    one = find_target(declaration, request)
    # A review may lack the resource. kube-apiserver knows only it, and it is the same for a kind in another case.
    named = request.resource if request.resource.resource else request.kind
    # A declared subresource may have a kind of its own, such as Scale, so only the resource tells its object.
    by_kind = one.kind if not one.subresource else ""
    if request.operation not in one.operations:
        return f"the operation is {request.operation}, not {' or '.join(one.operations)}"
    if one.group not in (EVERY, named.group) or one.version not in (EVERY, named.version):
        wanted = f"{one.group or 'core'}/{one.version}"
        return f"the object is of {named.group or 'core'}/{named.version}, not of {wanted}"
    if by_kind not in ("", request.kind.kind) and by_kind.lower() != request.kind.kind.lower():
        return f"the kind is {request.kind.kind}, not {by_kind}"
    if one.subresource not in (EVERY, request.sub_resource) and request.sub_resource not in one.subresources:
        wanted = " or ".join(each or "none" for each in one.subresources)
        return f"the subresource is {request.sub_resource or 'none'}, not {wanted}"
    if not by_kind and one.resource not in (EVERY, request.resource.resource):
        return f"the resource is {request.resource.resource}, not {one.resource}"
    scope = EVERY
    if one.scope != EVERY:
        scope = "Namespaced" if request.namespace and not _is_namespace(request) else "Cluster"
    return "" if one.scope == scope else f"the object is {scope}, and the scope of the rule is {one.scope}"


def _is_namespace(request: AdmissionRequest) -> bool:
    """Return whether the object is a Namespace. Its reviews have its own name as the namespace."""
    return request.kind.kind == "Namespace" and request.kind.group == ""


def _list_unselected(one: Declaration, request: AdmissionRequest, namespace_labels: Mapping[str, str]) -> Iterator[str]:
    labels = read_labels(request.object or request.old_object) if _is_namespace(request) else namespace_labels
    labels = {NAMESPACE_LABEL: request.namespace, **labels}
    if request.namespace in one.exempt:
        yield f"rules see no objects of the namespace {request.namespace}: give namespaces='*', or name it"
    if request.namespace and not compile_selector(one.namespace_selector)(labels):
        yield "namespace_selector does not select the labels of the namespace"
    selects = compile_selector(one.object_selector)
    if not any(selects(read_labels(document)) for document in (request.object, request.old_object) if document):
        yield "object_selector does not select the labels of the object"


def _find_false_condition(conditions: Mapping[str, Program], request: AdmissionRequest) -> str:
    scope = bind_variables(request)
    false = (name for name, one in conditions.items() if not one.evaluate(scope))
    return next((f"match_conditions[{name!r}] is false" for name in false), "")


_TEMPLATE: Final = ("spec", "template")
_TEMPLATES: Final[Mapping[tuple[str, str], tuple[str, tuple[str, ...]]]] = {
    ("", "replicationcontrollers"): ("ReplicationController", _TEMPLATE),
    ("apps", "daemonsets"): ("DaemonSet", _TEMPLATE),
    ("apps", "deployments"): ("Deployment", _TEMPLATE),
    ("apps", "replicasets"): ("ReplicaSet", _TEMPLATE),
    ("apps", "statefulsets"): ("StatefulSet", _TEMPLATE),
    ("batch", "cronjobs"): ("CronJob", ("spec", "jobTemplate", "spec", "template")),
    ("batch", "jobs"): ("Job", _TEMPLATE),
}
"""The kind, and the members that lead to the template, by group and plural. All have the version v1."""


def list_targets(declared: Declaration) -> Iterator[Declaration]:
    """Yield the declaration, then it for each kind whose templates the rule sees."""
    yield declared
    for named in _TEMPLATES if declared.templates else ():
        yield _declare_for(declared, *named)


def _declare_for(declared: Declaration, group: str, resource: str) -> Declaration:
    kind = _TEMPLATES[group, resource][0] if declared.kind else ""
    return msgspec.structs.replace(declared, group=group, version="v1", resource=resource, kind=kind, templates=False)


def find_target(declared: Declaration, request: AdmissionRequest) -> Declaration:
    """Return the declaration for the resource of a request: that of the workload for one with a template."""
    if declared.templates and (named := _name_resource(request)) in _TEMPLATES:
        return _declare_for(declared, *named)
    return declared


def find_template(declared: Declaration, request: AdmissionRequest) -> tuple[str, ...]:
    """Return the members that lead to the template which the rule sees in place of the object, none for the object."""
    return _TEMPLATES.get(_name_resource(request), ("", ()))[1] if declared.templates else ()


def _name_resource(request: AdmissionRequest) -> tuple[str, str]:
    return request.resource.group, request.resource.resource


def show_template(request: AdmissionRequest, path: tuple[str, ...]) -> AdmissionRequest | None:
    """Return the request with the Pods of the templates in place of its objects; None without a template.

    A Pod has the name and the namespace of its workload.
    """
    new, old = (_make_pod(one, path) for one in (request.object, request.old_object))
    if new is None and (request.operation != "DELETE" or old is None):
        return None
    return request.with_objects(new, old)


def _make_pod(document: JSON, path: tuple[str, ...]) -> JSONObject | None:
    template = document
    for member in path:
        template = as_object(template).get(member)
    if not isinstance(template, dict):
        return None
    metadata, own = as_object(template.get("metadata")), as_object(as_object(document).get("metadata"))
    named = {member: own[member] for member in ("name", "namespace") if member in own}
    return {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**metadata, **named}}


def place_refusal(answer: Response, path: tuple[str, ...]) -> Response:
    """Return a refusal of the Pod of a template with the path of the template."""
    prefix = ".".join(path)
    fields = [cause.field for cause in answer.causes]
    causes = tuple(StatusCause(f"{prefix}.{cause.field}", cause.message, cause.reason) for cause in answer.causes)
    separator = "." if fields and answer.message.startswith(fields[0]) else ": "
    return msgspec.structs.replace(
        answer,
        message=f"{prefix}{separator}{answer.message}",
        causes=causes or (StatusCause(prefix, answer.message),),
    )
