"""Merge keys of lists and unions in workloads.

The sources are the ``patchMergeKey`` and ``patchStrategy`` tags of k8s.io/api (apps/v1, core/v1, meta/v1),
and its ``listMapKey`` markers if more than the merge key identifies an element. All other
lists are atomic.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from fleethook.model.json import JSON


@dataclass(frozen=True, slots=True)
class MergeSchema:
    """The merge rules of one field.

    Attributes:
        fields: The fields of an object, or of a list's elements.
        merge_key: The field by which the elements of a list are merged, None for other values.
        identity: The fields that identify an element, with their defaults. Server-side apply and rendering use these;
            strategic merge patches use ``merge_key`` only.
        primitive: Whether a list of scalars merges as a set.
        retain_keys: Whether the value is a union: a patch removes all fields that it does not name.
    """

    fields: "Mapping[str, MergeSchema]" = field(default_factory=lambda: MappingProxyType({}))
    merge_key: str | None = None
    identity: "tuple[tuple[str, JSON], ...]" = ()
    primitive: bool = False
    retain_keys: bool = False


def _object(**fields: MergeSchema) -> MergeSchema:
    return MergeSchema(MappingProxyType(fields))


def _by(
    merge_key: str, *, identity: tuple[tuple[str, JSON], ...] = (), retain_keys: bool = False, **fields: MergeSchema
) -> MergeSchema:
    return MergeSchema(
        MappingProxyType(fields),
        merge_key=merge_key,
        identity=identity or ((merge_key, None),),
        retain_keys=retain_keys,
    )


_CONTAINERS: Final = _by(
    "name",
    env=_by("name"),
    ports=_by("containerPort", identity=(("containerPort", None), ("protocol", "TCP"))),
    volumeDevices=_by("devicePath"),
    volumeMounts=_by("mountPath"),
)

_METADATA: Final = _object(finalizers=MergeSchema(primitive=True), ownerReferences=_by("uid"))

_POD_SPEC: Final = _object(
    containers=_CONTAINERS,
    initContainers=_CONTAINERS,
    ephemeralContainers=_CONTAINERS,
    hostAliases=_by("ip"),
    imagePullSecrets=_by("name"),
    resourceClaims=_by("name", retain_keys=True),
    schedulingGates=_by("name"),
    topologySpreadConstraints=_by("topologyKey", identity=(("topologyKey", None), ("whenUnsatisfiable", None))),
    # Upstream merges tolerations atomically. They are a set in meaning: several clients add some, in any order.
    tolerations=MergeSchema(identity=(("key", ""), ("operator", "Equal"), ("value", ""), ("effect", ""))),
    volumes=_by("name", retain_keys=True, ephemeral=_object(volumeClaimTemplate=_object(metadata=_METADATA))),
)

WORKLOAD: Final = _object(
    metadata=_METADATA,
    spec=_object(
        strategy=MergeSchema(retain_keys=True),
        # Not tagged upstream, but a union: ValidateStatefulSetSpec refuses OnDelete with rollingUpdate.
        updateStrategy=MergeSchema(retain_keys=True),
        template=_object(metadata=_METADATA, spec=_POD_SPEC),
    ),
    status=_object(conditions=_by("type")),
)
"""The merge rules of Deployments and StatefulSets. Fields of only one kind never occur in the other."""
