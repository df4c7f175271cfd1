"""Group, version, kind and resource: the names of API types."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from fleethook.model.json import JSON, JSONObject, as_object, enumerate_objects


class GroupKind(NamedTuple):
    """A kind without version; the core group is ``""``."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


DEFINITION: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")


class GroupVersionKind(NamedTuple):
    """A kind in one version."""

    group: str
    version: str
    kind: str

    @property
    def group_kind(self) -> GroupKind:
        """The kind without its version."""
        return GroupKind(self.group, self.kind)

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of objects of this kind."""
        return f"{self.group}/{self.version}" if self.group else self.version


class GroupVersionResource(NamedTuple):
    """A resource (the plural in URLs) in one version."""

    group: str
    version: str
    resource: str


# A cluster has about a hundred versions, and each review of a workload parses several.
@lru_cache(maxsize=1024)
def parse_api_version(api_version: str) -> tuple[str, str]:
    """Return group and version of an ``apiVersion``: ``apps/v1`` is ``("apps", "v1")``, ``v1`` is ``("", "v1")``."""
    group, separator, version = api_version.rpartition("/")
    return (group, version) if separator else ("", api_version)


def gvk_of(document: JSONObject) -> GroupVersionKind:
    """Return the kind of ``document``; raises KeyError without apiVersion or kind."""
    group, version = parse_api_version(document["apiVersion"])
    return GroupVersionKind(group, version, document["kind"])


def list_served_kinds(definition: Mapping[str, JSON]) -> Iterator[GroupVersionKind]:
    """Yield the kind of a CustomResourceDefinition in each version that an apiserver serves."""
    spec = as_object(definition.get("spec"))
    group, kind = spec.get("group"), as_object(spec.get("names")).get("kind")
    for _, version in enumerate_objects(spec.get("versions")):
        name = version.get("name")
        if version.get("served") is True and isinstance(group, str) and isinstance(name, str) and isinstance(kind, str):
            yield GroupVersionKind(group, name, kind)


def guess_plural(singular: str) -> str:
    """Return the plural that apimachinery guesses for a kind in lower case."""
    if singular.endswith("endpoints"):
        return singular
    if singular.endswith("s"):
        return f"{singular}es"
    return f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s"


def is_built_in(group: str) -> bool:
    """Return whether a group is one of Kubernetes itself."""
    return "." not in group or group.endswith(".k8s.io")


def guess_resource(kind: str) -> str:
    """Return the plural of a kind as authors of custom resources form it: a gateway has gateways, a mesh meshes."""
    singular = kind.lower()
    if singular.endswith(("ay", "ey", "oy", "uy")):
        return f"{singular}s"
    return f"{singular}es" if singular.endswith(("ch", "sh", "x", "z")) else guess_plural(singular)
