"""Finds the logical cluster of a request by the annotation ``kcp.io/cluster`` of its stored objects.

This is for callers that are trusted to store objects under the right logical cluster. An object that is not stored
proves nothing, because the client is its author: the options of a connection, the body of a subresource.
"""

from typing import Final

from fleethook.engines.dispatch.dispatch_errors import StatusError
from fleethook.model.admission import AdmissionRequest, cluster_conflict
from fleethook.model.json import JSON
from fleethook.model.kcp import CLUSTER_ANNOTATION, cluster_of, is_cluster, is_path

_USE_ROUTE: Final = "leave {} out of the rules, or send such reviews to /clusters/NAME/{{mutate,validate}}"


def find_annotated_cluster(request: AdmissionRequest) -> str:
    """Return the name of the logical cluster in the annotations of a request's objects.

    ``object`` and ``oldObject`` of an UPDATE must agree. For DELETE, ``oldObject`` is the stored object. The bodies of
    CONNECT, and of CREATE of a subresource, are not stored and name no cluster.

    Raises:
        StatusError: The request names no logical cluster, or two; the message says how to correct it.
        msgspec.DecodeError: An object of the review is not JSON.
    """
    if request.operation == "CONNECT":
        raise _build_error("a CONNECT review carries no stored object", _USE_ROUTE.format("CONNECT"))
    if request.operation == "CREATE" and request.sub_resource:
        name = f"{request.resource.resource}/{request.sub_resource}"
        raise _build_error(f"the body of a CREATE of {name} is not stored", _USE_ROUTE.format(name))
    if conflict := cluster_conflict(request):
        raise StatusError(400, "BadRequest", conflict)
    if request.operation == "DELETE":
        return _read_name(request.old_object, "request.oldObject")
    return _read_name(request.object, "request.object")


def _read_name(document: JSON, member: str) -> str:
    if not isinstance(document, dict):
        raise _build_error(f"the review has no {member}", "send the complete review, as kube-apiserver does")
    cluster = cluster_of(document)
    if not cluster:
        raise _build_error(
            f"{member} has no annotation {CLUSTER_ANNOTATION}",
            "have the control plane set it when it creates objects, or exclude the object's namespace by the "
            "namespaceSelector of the webhook configuration",
        )
    if not is_cluster(cluster) or is_path(cluster):
        raise _build_error(
            f"{member} has the annotation {CLUSTER_ANNOTATION}: {cluster!r}, which is not a logical cluster name",
            "annotate objects with names, not with paths",
        )
    return cluster


def _build_error(problem: str, advice: str) -> StatusError:
    return StatusError(400, "BadRequest", f"{problem}, so the logical cluster is unknown: {advice}")
