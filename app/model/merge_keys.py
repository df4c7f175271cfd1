"""How lists and unions in workloads merge.

The facts are the ``patchMergeKey`` and ``patchStrategy`` tags of k8s.io/api (apps/v1, core/v1, meta/v1), and its
``listMapKey`` markers where an element is identified by more than its merge key. Lists that are not here are atomic:
replaced as a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from app.model.json import JSON


@dataclass(frozen=True, slots=True)
class MergeSchema:
    """How one member merges.

    Attributes:
        fields: The members of an object, or of a list's elements.
        merge_key: Set for a list of objects that merges element by element, by this member.
        identity: The members that identify an element, with the value that an absent one stands for. Server-side apply
            and rendering go by these; strategic merge patches go by ``merge_key`` alone.
        primitive: Set for a list of scalars that merges as a set.
        retain_keys: Set for a union: what a patch does not name gives way to what it sets.
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
    # Atomic for both kinds of merge, but a set in meaning: several parties add tolerations, and their order is nothing.
    tolerations=MergeSchema(identity=(("key", ""), ("operator", "Equal"), ("value", ""), ("effect", ""))),
    volumes=_by("name", retain_keys=True, ephemeral=_object(volumeClaimTemplate=_object(metadata=_METADATA))),
)

WORKLOAD: Final = _object(
    metadata=_METADATA,
    spec=_object(
        strategy=MergeSchema(retain_keys=True),
        # Not tagged upstream, but a union as well: OnDelete beside rollingUpdate is refused (ValidateStatefulSetSpec).
        updateStrategy=MergeSchema(retain_keys=True),
        template=_object(metadata=_METADATA, spec=_POD_SPEC),
    ),
    status=_object(conditions=_by("type")),
)
"""Deployments and StatefulSets; what one of them lacks never occurs in it."""
