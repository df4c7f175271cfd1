"""The attributes of a request (upstream: k8s.io/apiserver pkg/admission), and the annotation ``kcp.io/cluster``.

Dispatch sets the annotation in the objects that webhooks get, restores the client's one in the answer, and finds the
logical cluster of a request without a cluster in its path by it.
"""

from typing import Final, NamedTuple

from fleethook.engines.dispatch.errors_and_deadline import StatusError
from fleethook.engines.dispatch.match.equivalent_resources import SCALE
from fleethook.model.admission import AdmissionRequest, Kind, Resource, cluster_conflict
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.kcp import CLUSTER_ANNOTATION, cluster_of, is_cluster, is_path


class Attributes(NamedTuple):
    """The attributes of one request; its objects are never changed in place."""

    cluster: str
    """The logical cluster of the request."""
    operation: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    subresource: str
    requested: tuple[GroupVersionKind, GroupVersionResource, str]
    """The kind, resource and subresource that the client requested; the caller may have converted the object."""
    name: str
    namespace: str
    object: JSON
    old_object: JSON
    user_info: JSON
    options: JSON
    dry_run: bool
    size: int = 0
    """The size of the received request in bytes, including its objects."""

    @property
    def is_namespace(self) -> bool:
        """Whether the request is for a Namespace."""
        return self.resource.group == "" and self.resource.resource == "namespaces"

    @property
    def resource_name(self) -> str:
        """The resource as errors name it: ``widgets.example.org``."""
        return f"{self.resource.resource}.{self.resource.group}" if self.resource.group else self.resource.resource


def build_attributes(request: AdmissionRequest, *, cluster: str, sends_as_kcp: bool = False) -> Attributes:
    """Return the attributes of a review in a logical cluster.

    Args:
        request: The review.
        cluster: The logical cluster.
        sends_as_kcp: Annotate only those objects that have the annotation in kcp's reviews: a created one, and a stored
            one, which is no Scale. Otherwise, both are annotated (tests/conformance/kcp_requests.yaml).

    Raises:
        msgspec.DecodeError: An object of the review is not JSON.
        StatusError: An object cannot carry the cluster's annotation.
    """
    document, old = request.object, request.old_object
    kind, resource = _convert_kind(request.kind), _convert_resource(request.resource)
    if request.operation == "CREATE" or (request.operation != "CONNECT" and not sends_as_kcp):
        document = annotate_cluster(document, cluster, where="request.object")
    if request.operation != "CONNECT" and not (sends_as_kcp and kind == SCALE):
        old = annotate_cluster(old, cluster, where="request.oldObject")
    asked_kind = _convert_kind(request.request_kind) if request.request_kind else kind
    asked_resource = _convert_resource(request.request_resource) if request.request_resource else resource
    asked_subresource = request.request_sub_resource if request.request_resource else request.sub_resource
    return Attributes(
        cluster=cluster,
        operation=request.operation,
        kind=kind,
        resource=resource,
        subresource=request.sub_resource,
        requested=(asked_kind, asked_resource, asked_subresource),
        name=request.name,
        namespace=request.namespace,
        object=document,
        old_object=old,
        user_info=request.user,
        options=request.decoded_options,
        dry_run=bool(request.dry_run),
        size=request.size,
    )


def _convert_kind(kind: Kind) -> GroupVersionKind:
    return GroupVersionKind(kind.group, kind.version, kind.kind)


def _convert_resource(resource: Resource) -> GroupVersionResource:
    return GroupVersionResource(resource.group, resource.version, resource.resource)


def annotate_cluster(document: JSON, cluster: str, *, where: str) -> JSON:
    """Return an object with the annotation ``kcp.io/cluster``. Only the changed path is copied.

    An object of a plain cluster, whose name is ``""``, stays as it is.

    Raises:
        StatusError: The object, named by ``where``, cannot have annotations.
    """
    if not cluster or not isinstance(document, dict):
        return document
    metadata = _default_to_object(document.get("metadata"))
    annotations = _default_to_object(as_object(metadata).get("annotations"))
    if not isinstance(metadata, dict) or not isinstance(annotations, dict):
        member = "metadata" if not isinstance(metadata, dict) else "metadata.annotations"
        raise StatusError(400, "BadRequest", f"{where}.{member} is not an object")
    if annotations.get(CLUSTER_ANNOTATION) == cluster:
        return document
    return {**document, "metadata": {**metadata, "annotations": {**annotations, CLUSTER_ANNOTATION: cluster}}}


def _default_to_object(value: JSON) -> JSON:
    """Return a member, an empty object for null or a missing member."""
    return {} if value is None else value


def read_claimed_cluster(request: AdmissionRequest) -> str:
    """Return the cluster that the client's object names in ``kcp.io/cluster``, ``""`` if none."""
    document = request.object if request.object is not None else request.old_object
    return cluster_of(document) if isinstance(document, dict) else ""


def describe_other_claim(request: AdmissionRequest, cluster: str) -> str:
    """Return a warning if the client's object names another cluster than that of the request, ``""`` if not."""
    claimed = read_claimed_cluster(request)
    if claimed in ("", cluster):
        return ""
    return f"kcp.io/cluster of the object names {claimed}; webhooks get {cluster}, where it is"


def restore_annotation(document: JSON, sent: JSON) -> JSON:
    """Return an object with the annotation ``kcp.io/cluster`` as the client sent it, without the changes of webhooks.

    kcp only removes the annotation that it added (`SetClusterAnnotation` in pkg/admission/validatingwebhook). It leaves
    an empty map of annotations, and does not restore the client's value.
    """
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        return document
    metadata: JSONObject = document["metadata"]
    present = as_object(metadata.get("annotations"))
    former = as_object(as_object(sent).get("metadata"))
    wanted = as_object(former.get("annotations")).get(CLUSTER_ANNOTATION)
    if present and present.get(CLUSTER_ANNOTATION) == wanted:
        return document
    annotations = {name: value for name, value in present.items() if name != CLUSTER_ANNOTATION}
    if wanted is not None:
        annotations[CLUSTER_ANNOTATION] = wanted
    made = {name: value for name, value in metadata.items() if name != "annotations"}
    if annotations:
        made["annotations"] = annotations
    elif "annotations" in former and not former["annotations"]:
        # Empty or null, as the client sent it.
        made["annotations"] = former["annotations"]
    if not made and "metadata" not in as_object(sent):
        return {name: value for name, value in document.items() if name != "metadata"}
    return {**document, "metadata": made}


_USE_ROUTE: Final = "leave {} out of the rules, or send such reviews to /clusters/NAME/{{mutate,validate}}"


def find_annotated_cluster(request: AdmissionRequest) -> str:
    """Return the name of the logical cluster in the annotations of a request's objects.

    ``object`` and ``oldObject`` of an UPDATE must agree: the apiservers that call these routes store an update as it
    is, and do not restore the annotation as kcp does. For DELETE, ``oldObject`` is the stored object. The bodies of
    CONNECT, and of CREATE of a subresource, are not stored, so they name no cluster.

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
