"""OpenYurt's API group ``apps.openyurt.io`` of v1.4 to v1.7, and its well-known labels and annotations."""

from typing import Annotated, Any, Final, Literal

import msgspec

from fleethook.model.gvk import GroupKind

__all__ = [
    "ArgsItem",
    "Condition",
    "Entry",
    "EnvItem",
    "ImageItem",
    "Item",
    "LabelSelector",
    "NodePool",
    "NodePoolSpec",
    "NodeSelectorTerm",
    "Patch",
    "Pool",
    "PoolStatus",
    "ResourcesItem",
    "Subject",
    "Topology",
    "VolumeMountsItem",
    "WorkloadTemplate",
    "WorkloadTemplateSpec",
    "YurtAppDaemon",
    "YurtAppDaemonSpec",
    "YurtAppOverrider",
    "YurtAppOverriderStatus",
    "YurtAppSet",
    "YurtAppSetSpec",
]

GROUP: Final = "apps.openyurt.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
VERSION_V1BETA1: Final = "v1beta1"
API_VERSION_V1BETA1: Final = f"{GROUP}/{VERSION_V1BETA1}"
SUBJECT_API_VERSIONS: Final = (API_VERSION, API_VERSION_V1BETA1)
"""API versions of owner references whose workloads are rendered; the webhooks select no others."""

YURT_APP_OVERRIDER: Final = GroupKind(GROUP, "YurtAppOverrider")
YURT_APP_SET: Final = GroupKind(GROUP, "YurtAppSet")
YURT_APP_DAEMON: Final = GroupKind(GROUP, "YurtAppDaemon")
NODE_POOL: Final = GroupKind(GROUP, "NodePool")
SUBJECT_KINDS: Final = frozenset({YURT_APP_SET, YURT_APP_DAEMON})
SUBJECT_VERSIONS: Final = {YURT_APP_SET: (VERSION, VERSION_V1BETA1), YURT_APP_DAEMON: (VERSION,)}
"""The versions of each kind of subject, the oldest first."""

POOL_NAME_LABEL: Final = "apps.openyurt.io/pool-name"
REVISION_LABEL: Final = "apps.openyurt.io/controller-revision-hash"
POOL_PATCH_ANNOTATION: Final = "apps.openyurt.io/patch"
REF_NODEPOOL_ANNOTATION: Final = "apps.openyurt.io/ref-nodepool"
REF_APP_SET_LABEL: Final = "apps.openyurt.io/ref-yurtappset"
"""The label by which a YurtAppSet v1beta1 finds its workloads; a workload without it is released."""
TRIGGER_ANNOTATION: Final = "LastOverrideTime"
RENDERED_ANNOTATION: Final = "fleethook.io/rendered"
"""Hash of all inputs of the last render."""
PARTIAL_SUFFIX: Final = "-partial"
"""The end of ``fleethook.io/rendered`` if a policy could not do all that the webhook does.

The hash then equals no plan's, so that the webhook and the controller complete the workload.
"""
NUDGED_ANNOTATION: Final = "fleethook.io/nudged-at"
NODE_LABEL_NODEPOOL: Final = "apps.openyurt.io/nodepool"
NODEPOOL_TOKEN: Final = "{{nodepool}}"  # noqa: S105 - a placeholder, not a secret
TWEAK_POOL_TOKEN: Final = "{{nodepool-name}}"  # noqa: S105 - as above
"""The placeholder for the pool's name in the patches of a YurtAppSet v1beta1."""

FreeObject = Annotated[dict[str, Any], msgspec.Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})]
"""An object with an unknown schema; all its fields are preserved."""

Labels = dict[str, str]


class API(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Common options: JSON names in camel case, unknown fields allowed, defaults omitted."""


def describe(text: str, **constraints: Any) -> Any:
    """Return the description and the constraints of a field, for its schema."""
    return msgspec.Meta(description=text, **constraints)


class ImageItem(API, frozen=True):
    """Replaces the image of the containers and init containers with a name."""

    container_name: Annotated[str, describe("Name of the container whose image is replaced.", min_length=1)]
    image_claim: Annotated[str, describe("The new image; {{nodepool}} is replaced by the pool's name.", min_length=1)]


class EnvItem(API, frozen=True):
    """Sets environment variables of the containers and init containers with a name."""

    container_name: Annotated[str, describe("Name of the container.", min_length=1)]
    env: Annotated[
        list[FreeObject], describe("Variables as in a container; each sets or replaces the one with its name.")
    ]


class ArgsItem(API, frozen=True):
    """Replaces the arguments of the containers and init containers with a name."""

    container_name: Annotated[str, describe("Name of the container.", min_length=1)]
    args: Annotated[list[str], describe("All arguments, as in a container.")]


class ResourcesItem(API, frozen=True):
    """Sets resources of the containers and init containers with a name."""

    container_name: Annotated[str, describe("Name of the container.", min_length=1)]
    resources: Annotated[
        FreeObject,
        describe("requests and limits, as in a container; each resource is set by its name, null removes it."),
    ]


class VolumeMountsItem(API, frozen=True):
    """Sets volume mounts of the containers and init containers with a name."""

    container_name: Annotated[str, describe("Name of the container.", min_length=1)]
    volume_mounts: Annotated[
        list[FreeObject], describe("Mounts as in a container; each sets or replaces the one with its mountPath.")
    ]


NullableLabels = dict[str, str | None]
"""Labels, annotations or a node selector, in which null removes a value."""


class Item(API, frozen=True):
    """One configuration to inject; exactly one field is set."""

    image: Annotated[ImageItem | None, describe("Replaces a container's image.")] = None
    replicas: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=2147483647, extra_json_schema={"format": "int32"})] | None,
        describe("Replaces the number of replicas."),
    ] = None
    initial_replicas: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=2147483647, extra_json_schema={"format": "int32"})] | None,
        describe("Number of replicas of a new workload; later, the number is left to its other owner."),
    ] = None
    leave: Annotated[
        list[Literal["replicas"]] | None,
        describe("Fields that another owner sets, such as an autoscaler: an existing workload keeps its value."),
    ] = None
    env: Annotated[EnvItem | None, describe("Sets environment variables of a container.")] = None
    args: Annotated[ArgsItem | None, describe("Replaces a container's arguments.")] = None
    resources: Annotated[ResourcesItem | None, describe("Sets a container's requests and limits.")] = None
    volume_mounts: Annotated[VolumeMountsItem | None, describe("Sets volume mounts of a container.")] = None
    volumes: Annotated[
        list[FreeObject] | None, describe("Volumes of the pod; each sets or replaces the one with its name.")
    ] = None
    node_selector: Annotated[NullableLabels | None, describe("Node selector of the pod; null removes a label.")] = None
    tolerations: Annotated[list[FreeObject] | None, describe("Tolerations to add to the pod.")] = None
    annotations: Annotated[NullableLabels | None, describe("Annotations of the pod template; null removes one.")] = None
    labels: Annotated[NullableLabels | None, describe("Labels of the pod template; null removes one.")] = None


class Patch(API, frozen=True):
    """One operation of a JSON Patch (RFC 6902) on the workload."""

    path: Annotated[
        str, describe("JSON pointer into the workload; {{nodepool}} is replaced by the pool's name.", pattern="^/")
    ]
    operation: Annotated[Literal["add", "remove", "replace"], describe("Operation at the path.")]
    value: Annotated[
        Any,
        describe(
            "Value for add and replace, of any type; null removes. Empty for remove.",
            extra_json_schema={"x-kubernetes-preserve-unknown-fields": True, "nullable": True},
        ),
    ] = msgspec.UNSET


class LabelSelector(API, frozen=True):
    """``metav1.LabelSelector``."""

    match_labels: Labels | None = None
    match_expressions: list[FreeObject] | None = None


class Entry(API, frozen=True):
    """A set of node pools and their common configuration."""

    pools: Annotated[
        list[Annotated[str, msgspec.Meta(min_length=1)]] | None,
        describe(
            "Names of node pools; '*' selects every pool, '-name' excludes one anywhere in the list; [] selects none. "
            "Required without poolSelector."
        ),
    ] = None
    pool_selector: Annotated[
        LabelSelector | None,
        describe(
            "Selects NodePools by their labels, besides pools; '-name' in pools excludes these, too.",
            # An apiserver prunes misspelled members, and an empty selector would select every pool.
            extra_json_schema={"minProperties": 1},
        ),
    ] = None
    items: Annotated[list[Item] | None, describe("Applied in order, before the patches.")] = None
    patches: Annotated[list[Patch] | None, describe("Applied in order, all or none.")] = None


class Subject(API, frozen=True):
    """The object whose workloads are overridden, in the namespace of the overrider."""

    kind: Annotated[Literal["YurtAppSet", "YurtAppDaemon"], describe("Kind of the subject.")]
    name: Annotated[str, describe("Name of the subject.", min_length=1)]
    api_version: Annotated[str, describe("API version of the subject.")] = API_VERSION


class Condition(API, frozen=True):
    """``metav1.Condition``."""

    type: Annotated[str, describe("Type of the condition: Bound, Rendered.")]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, describe("Reason of the status in one word.")] = ""
    message: Annotated[str, describe("Explanation of the status.")] = ""
    last_transition_time: Annotated[str | None, describe("Time of the last change of the status.")] = None
    observed_generation: Annotated[int | None, describe("Observed generation of the overrider.")] = None


class PoolStatus(API, frozen=True):
    """Status of one overridden workload."""

    pool: Annotated[str, describe("The node pool.")]
    kind: Annotated[str, describe("Deployment or StatefulSet.")]
    workload: Annotated[str, describe("Name of the workload.")]
    hash: Annotated[str | None, describe("Expected value of the annotation fleethook.io/rendered.")] = None
    observed_generation: Annotated[int | None, describe("Observed generation of the workload.")] = None
    error: Annotated[
        str | None, describe("Reason why the workload does not match the overrider; absent if it matches.")
    ] = None


class YurtAppOverriderStatus(API, frozen=True):
    """Observed state of an overrider."""

    observed_generation: Annotated[int | None, describe("Observed generation.")] = None
    summary: Annotated[str | None, describe("Matching workloads of all expected workloads, such as 49/50.")] = None
    conditions: Annotated[list[Condition] | None, describe("Bound and Rendered.")] = None
    pools: Annotated[list[PoolStatus] | None, describe("The overridden workloads; at most 1,000, failures first.")] = (
        None
    )


class YurtAppOverrider(API, frozen=True):
    """Configuration of the workloads of a YurtAppSet or YurtAppDaemon by node pool."""

    subject: Subject
    entries: Annotated[list[Entry], describe("Applied in order; a later entry wins over an earlier one.")]
    api_version: str = API_VERSION
    kind: str = "YurtAppOverrider"
    metadata: FreeObject = {}
    status: YurtAppOverriderStatus | None = None


class WorkloadTemplateSpec(API, frozen=True):
    """A template of a Deployment or StatefulSet."""

    metadata: FreeObject = {}
    spec: Annotated[FreeObject, describe("Spec of an apps/v1 Deployment or StatefulSet.")] = {}


class WorkloadTemplate(API, frozen=True):
    """Template of each pool's workload; exactly one field is set."""

    deployment_template: WorkloadTemplateSpec | None = None
    stateful_set_template: WorkloadTemplateSpec | None = None


class NodeSelectorTerm(API, frozen=True):
    """``core/v1.NodeSelectorTerm``."""

    match_expressions: list[FreeObject] | None = None
    match_fields: list[FreeObject] | None = None


class Pool(API, frozen=True):
    """One node pool of a YurtAppSet's topology."""

    name: Annotated[str, describe("Name of the pool.", min_length=1)]
    node_selector_term: Annotated[NodeSelectorTerm | None, describe("Selects the nodes of the pool's pods.")] = None
    tolerations: list[FreeObject] | None = None
    replicas: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=2147483647, extra_json_schema={"format": "int32"})] | None,
        describe("Number of pods in the pool."),
    ] = None
    patch: Annotated[
        FreeObject | None, describe("Strategic merge patch on the pool's workload; takes precedence over replicas.")
    ] = None


class Topology(API, frozen=True):
    """Distribution of the workloads over node pools."""

    pools: Annotated[list[Pool] | None, describe("Node pools, each with its own workload.")] = None


class YurtAppSetSpec(API, frozen=True):
    """Desired state of a YurtAppSet."""

    selector: Annotated[LabelSelector, describe("Selects the pods; must match the template's labels.")]
    workload_template: WorkloadTemplate = WorkloadTemplate()
    topology: Topology = Topology()
    revision_history_limit: Annotated[int | None, describe("Old revisions to keep.")] = None


class YurtAppSet(API, frozen=True):
    """One workload per listed node pool."""

    spec: YurtAppSetSpec
    api_version: str = API_VERSION
    kind: str = "YurtAppSet"
    metadata: FreeObject = {}
    status: FreeObject = {}


class YurtAppDaemonSpec(API, frozen=True):
    """Desired state of a YurtAppDaemon."""

    selector: Annotated[LabelSelector, describe("Selects the pods; must match the template's labels.")]
    workload_template: WorkloadTemplate = WorkloadTemplate()
    nodepool_selector: Annotated[LabelSelector | None, describe("Selects the node pools by their labels.")] = None
    revision_history_limit: Annotated[int | None, describe("Old revisions to keep.")] = None


class YurtAppDaemon(API, frozen=True):
    """One workload per node pool that a selector matches."""

    spec: YurtAppDaemonSpec
    api_version: str = API_VERSION
    kind: str = "YurtAppDaemon"
    metadata: FreeObject = {}
    status: FreeObject = {}


class NodePoolSpec(API, frozen=True):
    """Desired state of a NodePool."""

    type: Annotated[Literal["Edge", "Cloud"], describe("Location of the nodes: edge or cloud.")] = "Edge"
    selector: Annotated[LabelSelector | None, describe("Selects the pool's nodes.")] = None
    labels: Annotated[Labels | None, describe("Put on every node of the pool.")] = None
    annotations: Annotated[Labels | None, describe("Put on every node of the pool.")] = None
    taints: Annotated[list[FreeObject] | None, describe("Put on every node of the pool.")] = None


class NodePool(API, frozen=True):
    """A set of nodes in one location."""

    spec: NodePoolSpec = NodePoolSpec()
    api_version: str = API_VERSION
    kind: str = "NodePool"
    metadata: FreeObject = {}
    status: FreeObject = {}
