"""Finds the logical cluster of a request by the annotation ``kcp.io/cluster`` of its stored objects.

This is for callers that are trusted to store objects under the right logical cluster. An object that is not stored,
such as the options of a connection or the body of a subresource, proves nothing: its author is the client.
"""

from typing import Final

from app.dispatch.errors import StatusError
from app.model.admission import AdmissionRequest, cluster_conflict
from app.model.json import JSON
from app.model.kcp import CLUSTER_ANNOTATION, cluster_of, is_cluster, is_path

_USE_ROUTE: Final = "leave {} out of the rules, or send such reviews to /clusters/NAME/{{mutate,validate}}"


def find_annotated_cluster(request: AdmissionRequest) -> str:
    """Return the name of the logical cluster that the objects of a request are annotated with.

    Of an UPDATE, ``object`` and ``oldObject`` must agree. A DELETE is decided by ``oldObject``, which is the stored
    object. The bodies of CONNECT, and of CREATE of a subresource, are not stored and name no cluster.

    Raises:
        StatusError: The request names no logical cluster, or two; the message says what to do.
        msgspec.DecodeError: One of its objects is no JSON.
    """
    if request.operation == "CONNECT":
        raise _refusal("a CONNECT review carries no stored object", _USE_ROUTE.format("CONNECT"))
    if request.operation == "CREATE" and request.sub_resource:
        name = f"{request.resource.resource}/{request.sub_resource}"
        raise _refusal(f"the body of a CREATE of {name} is not stored", _USE_ROUTE.format(name))
    if conflict := cluster_conflict(request):
        raise StatusError(400, "BadRequest", conflict)
    if request.operation == "DELETE":
        return _name_of(request.old_object, "request.oldObject")
    return _name_of(request.object, "request.object")


def _name_of(document: JSON, member: str) -> str:
    if not isinstance(document, dict):
        raise _refusal(f"the review has no {member}", "send the whole review, as kube-apiserver does")
    cluster = cluster_of(document)
    if not cluster:
        raise _refusal(
            f"{member} has no annotation {CLUSTER_ANNOTATION}",
            "have the control plane set it when it creates objects, or exclude the object's namespace by the "
            "namespaceSelector of the webhook configuration",
        )
    if not is_cluster(cluster) or is_path(cluster):
        raise _refusal(
            f"{member} has the annotation {CLUSTER_ANNOTATION}: {cluster!r}, which is no name of a logical cluster",
            "annotate objects with names, not with paths",
        )
    return cluster


def _refusal(problem: str, advice: str) -> StatusError:
    return StatusError(400, "BadRequest", f"{problem}, so nobody can tell whose webhooks decide: {advice}")
