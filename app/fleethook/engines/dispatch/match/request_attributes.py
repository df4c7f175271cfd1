"""The attributes of a request, the rule of a webhook that matches them or an equivalent, and the nearest miss.

Upstream: `Attributes` of k8s.io/apiserver pkg/admission, and pkg/admission/plugin/webhook/predicates/rules.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.dispatch.errors_and_deadline import StatusError
from fleethook.engines.dispatch.match.equivalent_resources import SCALE, Equivalent
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Webhook
from fleethook.model.admission import AdmissionRequest, Kind, Resource
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource
from fleethook.model.json import JSON, as_object, as_text
from fleethook.model.kcp import CLUSTER_ANNOTATION
from fleethook.model.rule_matching import (
    EVERY,
    RuleAttributes,
    RuleWithOperations,
    matches_group,
    matches_operation,
    matches_resource,
    matches_rule,
    matches_scope,
)

_OBJECT: Final = "request.object"
_OLD_OBJECT: Final = "request.oldObject"


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
        document = annotate_cluster(document, cluster, where=_OBJECT)
    if request.operation != "CONNECT" and not (sends_as_kcp and kind == SCALE):
        old = annotate_cluster(old, cluster, where=_OLD_OBJECT)
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
    annotations = as_object(as_object(as_object(document).get("metadata")).get("annotations"))
    return as_text(annotations.get(CLUSTER_ANNOTATION))


class WebhookInvocation(NamedTuple):
    """The resource, subresource and kind in which a webhook gets a request."""

    resource: GroupVersionResource
    subresource: str
    kind: GroupVersionKind | None
    """None if the rule matches an equivalent resource of unknown kind."""
    rule: int
    """The index of the matching rule."""


class EquivalentIndex:
    """Indexes equivalents by group and resource, then by version: a definition may have thousands of versions."""

    def __init__(self, equivalents: Sequence[Equivalent]) -> None:
        """Index equivalents; earlier ones are preferred."""
        self._all: Final = equivalents
        self._positions: Final[dict[tuple[str, str], dict[str, int]]] = {}
        for position, equivalent in enumerate(equivalents):
            group, version, resource = equivalent.resource
            self._positions.setdefault((group, resource), {}).setdefault(version, position)

    def find_first(self, rule: RuleWithOperations, attributes: RuleAttributes) -> Equivalent | None:
        """Return the first equivalent that a rule matches, except the resource of the request itself."""
        if not matches_operation(rule, attributes):
            return None
        positions = [
            position
            for (group, resource), versions in self._positions.items()
            if (position := self._find_first_version(rule, attributes, (group, resource), versions)) is not None
        ]
        return self._all[min(positions)] if positions else None

    def _find_first_version(
        self, rule: RuleWithOperations, attributes: RuleAttributes, named: tuple[str, str], versions: Mapping[str, int]
    ) -> int | None:
        group, resource = named
        one = attributes._replace(resource=GroupVersionResource(group, "", resource))
        if not (matches_group(rule, one) and matches_resource(rule, one)):
            return None
        # The versions of a definition are in order of preference, so the first match is the result.
        listed = (
            versions.values()
            if EVERY in rule.versions
            else sorted(versions[version] for version in rule.versions if version in versions)
        )
        for position in listed:
            equivalent = self._all[position].resource
            if equivalent != attributes.resource and matches_scope(rule, attributes._replace(resource=equivalent)):
                return position
        return None


def find_invocation(
    webhook: Webhook, attributes: RuleAttributes, kind: GroupVersionKind, equivalents: EquivalentIndex
) -> WebhookInvocation | None:
    """Return the invocation of a webhook, None if none of its rules matches the request.

    An exact match is preferred. With matchPolicy Equivalent, the first rule that matches an equivalent counts.
    """
    for number, rule in enumerate(webhook.rules):
        if matches_rule(rule, attributes):
            return WebhookInvocation(attributes.resource, attributes.subresource, kind, number)
    if not webhook.matches_equivalents:
        return None
    for number, rule in enumerate(webhook.rules):
        equivalent = equivalents.find_first(rule, attributes)
        if equivalent is not None:
            return WebhookInvocation(equivalent.resource, attributes.subresource, equivalent.kind, number)
    return None
