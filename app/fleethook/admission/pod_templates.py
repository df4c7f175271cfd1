"""The Pods in the templates of workloads, for rules about Pods that decide about templates, too.

Without such a rule, a person applies a Deployment, and an event of its ReplicaSet tells that its Pods are refused.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from fleethook.admission.rule_options import Declaration
from fleethook.model.admission import AdmissionRequest, Response, StatusCause
from fleethook.model.json import JSON, JSONObject, as_object

_TEMPLATE: Final = ("spec", "template")
_PATHS: Final[Mapping[tuple[str, str, str], tuple[str, ...]]] = {
    ("", "replicationcontrollers", "ReplicationController"): _TEMPLATE,
    ("apps", "daemonsets", "DaemonSet"): _TEMPLATE,
    ("apps", "deployments", "Deployment"): _TEMPLATE,
    ("apps", "replicasets", "ReplicaSet"): _TEMPLATE,
    ("apps", "statefulsets", "StatefulSet"): _TEMPLATE,
    ("batch", "cronjobs", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "jobs", "Job"): _TEMPLATE,
}
"""The members that lead to the template, by group, plural and kind. All have the version v1."""
_BY_RESOURCE: Final = {(group, plural): path for (group, plural, _), path in _PATHS.items()}


def list_targets(declared: Declaration) -> Iterator[Declaration]:
    """Yield the declaration, then it for each kind whose templates the rule sees."""
    yield declared
    for group, plural, kind in _PATHS if declared.templates else ():
        yield declared._replace(
            group=group, version="v1", resource=plural, kind=kind if declared.kind else "", templates=False
        )


def find_target(declared: Declaration, request: AdmissionRequest) -> Declaration:
    """Return the declaration for the resource of a request: that of the workload for one with a template."""
    if not declared.templates:
        return declared
    named = request.resource
    found = (
        target for target in list_targets(declared) if (target.group, target.resource) == (named.group, named.resource)
    )
    return next(found, declared)


def find_template(declared: Declaration, request: AdmissionRequest) -> tuple[str, ...]:
    """Return the members that lead to the template which the rule sees in place of the object, none for the object."""
    if not declared.templates:
        return ()
    return _BY_RESOURCE.get((request.resource.group, request.resource.resource), ())


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
