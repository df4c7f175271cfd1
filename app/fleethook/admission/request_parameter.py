"""The parameter `request` of rules: the request of a review. No I/O."""

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from fleethook.admission.attribute_access_and_json import view
from fleethook.admission.store_parameter import Lookup
from fleethook.model.admission import AdmissionRequest, read_cluster
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource
from fleethook.model.json import JSON, as_object, as_text


def find_object(review: AdmissionRequest) -> JSON:
    """Return the object that a rule decides about: for a DELETE, the object that is deleted."""
    return review.old_object if review.operation == "DELETE" else review.object


class Request:
    """The request of a review. Changes of `object` by a mutating rule become the patch.

    Attributes:
        uid: Identifies the review.
        operation: ``CREATE``, ``UPDATE``, ``DELETE`` or ``CONNECT``.
        namespace: The namespace; ``""`` for an object without one.
        subresource: The subresource; ``""`` for the object itself.
        kind: Group, version and kind of the object.
        dry_run: Whether the request has no effect.
        workspace: The path of the logical cluster, such as ``root:team``; ``""`` if it is not known. An
            administrator of the workspace can change it, so compare `cluster` where a rule trusts a workspace.
    """

    def __init__(self, review: AdmissionRequest, lookup: Any) -> None:
        """Prepare; nothing is decoded before it is read."""
        self._review: Final = review
        self._lookup: Final[Lookup] = lookup
        self.workspace: Final = lookup.workspace
        self.uid: Final = review.uid
        self.operation: Final[str] = review.operation
        self.namespace: Final = review.namespace
        self.subresource: Final = review.sub_resource
        self.kind: Final = GroupVersionKind(review.kind.group, review.kind.version, review.kind.kind)
        self.dry_run: Final = bool(review.dry_run)

    @cached_property
    def name(self) -> str:
        """The name of the object, also of one that is deleted with its collection; ``""`` before it is generated."""
        if self._review.name or self.operation != "DELETE":
            return self._review.name
        return as_text(as_object(as_object(self._review.old_object).get("metadata")).get("name"))

    @cached_property
    def cluster(self) -> str:
        """The name of the logical cluster of kcp; ``""`` outside kcp."""
        return self._lookup.cluster or read_cluster(self._review)

    @cached_property
    def object(self) -> Any:
        """The object; for a DELETE, the object that is deleted."""
        return view(find_object(self._review))

    @cached_property
    def old(self) -> Any:
        """The stored object; None for a CREATE."""
        return view(self._review.old_object)

    @property
    def resource(self) -> GroupVersionResource:
        """Group, version and plural; a subresource has those of its object."""
        named = self._review.resource
        return GroupVersionResource(named.group, named.version, named.resource)

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the object, to read."""
        return self._read_texts("labels")

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the object, to read."""
        return self._read_texts("annotations")

    @cached_property
    def user(self) -> Any:
        """The user: ``username``, ``uid``, ``groups`` and ``extra``."""
        return view(self._review.user or {})

    @cached_property
    def options(self) -> Any:
        """The options of the operation."""
        return view(self._review.decoded_options or {})

    def _read_texts(self, member: str) -> Mapping[str, str]:
        document = self.object
        return MappingProxyType(as_object(as_object(as_object(document).get("metadata")).get(member)))
