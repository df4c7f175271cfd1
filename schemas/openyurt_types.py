"""The types of ``apps.openyurt.io`` whose definitions fleethook installs; only their schemas are used."""

from typing import Annotated, Any, Literal

import msgspec

from fleethook.model.openyurt import API_VERSION

FreeObject = Annotated[dict[str, Any], msgspec.Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})]
"""An object with an unknown schema; all its fields are preserved."""

Labels = dict[str, str]


Count32 = Annotated[int, msgspec.Meta(ge=0, le=2147483647, extra_json_schema={"format": "int32"})]
"""A number of replicas or Pods."""


class API(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Common options: JSON names in camel case, unknown fields allowed, defaults omitted."""


class ImageItem(API, frozen=True):
    """Replaces the image of the containers and init containers with a name."""

    container_name: Annotated[str, msgspec.Meta(min_length=1)]
    """Name of the container whose image is replaced."""
    image_claim: Annotated[str, msgspec.Meta(min_length=1)]
    """The new image; {{nodepool}} is replaced by the pool's name."""


class Item(API, frozen=True):
    """One configuration to inject; exactly one field is set."""

    image: ImageItem | None = None
    """Replaces a container's image."""
    replicas: Count32 | None = None
    """Replaces the number of replicas."""
    initial_replicas: Count32 | None = None
    """Number of replicas of a new workload; later, the number is left to its other owner."""
    leave: list[Literal["replicas"]] | None = None
    """Fields that another owner sets, such as an autoscaler: an existing workload keeps its value."""


class Patch(API, frozen=True):
    """One operation of a JSON Patch (RFC 6902) on the workload."""

    path: Annotated[str, msgspec.Meta(pattern="^/")]
    """JSON pointer into the workload; {{nodepool}} is replaced by the pool's name."""
    operation: Literal["add", "remove", "replace"]
    """Operation at the path."""
    value: Annotated[
        Any, msgspec.Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True, "nullable": True})
    ] = msgspec.UNSET
    """Value for add and replace, of any type; null removes. Empty for remove."""


class LabelSelector(API, frozen=True):
    """``metav1.LabelSelector``."""

    match_labels: Labels | None = None
    match_expressions: list[FreeObject] | None = None


class Entry(API, frozen=True):
    """A set of node pools and their common configuration."""

    pools: list[Annotated[str, msgspec.Meta(min_length=1)]] | None = None
    """Names of node pools; '*' selects every pool, '-name' excludes one anywhere in the list; [] selects none. Required
    without poolSelector."""
    pool_selector: Annotated[LabelSelector | None, msgspec.Meta(extra_json_schema={"minProperties": 1})] = None
    """Selects NodePools by their labels, besides pools; '-name' in pools excludes these, too."""
    items: list[Item] | None = None
    """Applied in order, before the patches."""
    patches: list[Patch] | None = None
    """Applied in order, all or none."""


class Subject(API, frozen=True):
    """The object whose workloads are overridden, in the namespace of the overrider."""

    kind: Literal["YurtAppSet", "YurtAppDaemon"]
    """Kind of the subject."""
    name: Annotated[str, msgspec.Meta(min_length=1)]
    """Name of the subject."""
    api_version: str = API_VERSION
    """API version of the subject."""


class Condition(API, frozen=True):
    """``metav1.Condition``."""

    type: str
    """Type of the condition: Bound, Rendered."""
    status: Literal["True", "False", "Unknown"]
    reason: str = ""
    """Reason of the status in one word."""
    message: str = ""
    """Explanation of the status."""
    last_transition_time: str | None = None
    """Time of the last change of the status."""
    observed_generation: int | None = None
    """Observed generation of the overrider."""


class PoolStatus(API, frozen=True):
    """Status of one overridden workload."""

    pool: str
    """The node pool."""
    kind: str
    """Deployment or StatefulSet."""
    workload: str
    """Name of the workload."""
    hash: str | None = None
    """Expected value of the annotation fleethook.io/rendered."""
    observed_generation: int | None = None
    """Observed generation of the workload."""
    error: str | None = None
    """Reason why the workload does not match the overrider; absent if it matches."""


class YurtAppOverriderStatus(API, frozen=True):
    """Observed state of an overrider."""

    observed_generation: int | None = None
    """Observed generation."""
    summary: str | None = None
    """Matching workloads of all expected workloads, such as 49/50."""
    conditions: list[Condition] | None = None
    """Bound and Rendered."""
    pools: list[PoolStatus] | None = None
    """The overridden workloads; at most 1,000, failures first."""


class YurtAppOverrider(API, frozen=True):
    """Configuration of the workloads of a YurtAppSet or YurtAppDaemon by node pool."""

    subject: Subject
    entries: list[Entry]
    """Applied in order; a later entry wins over an earlier one."""
    api_version: str = API_VERSION
    kind: str = "YurtAppOverrider"
    metadata: FreeObject = {}
    status: YurtAppOverriderStatus | None = None


class WorkloadTemplateSpec(API, frozen=True):
    """A template of a Deployment or StatefulSet."""

    metadata: FreeObject = {}
    spec: FreeObject = {}
    """Spec of an apps/v1 Deployment or StatefulSet."""


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

    name: Annotated[str, msgspec.Meta(min_length=1)]
    """Name of the pool."""
    node_selector_term: NodeSelectorTerm | None = None
    """Selects the nodes of the pool's pods."""
    tolerations: list[FreeObject] | None = None
    replicas: Count32 | None = None
    """Number of pods in the pool."""
    patch: FreeObject | None = None
    """Strategic merge patch on the pool's workload; takes precedence over replicas."""


class Topology(API, frozen=True):
    """Distribution of the workloads over node pools."""

    pools: list[Pool] | None = None
    """Node pools, each with its own workload."""


class YurtAppSetSpec(API, frozen=True):
    """Desired state of a YurtAppSet."""

    selector: LabelSelector
    """Selects the pods; must match the template's labels."""
    workload_template: WorkloadTemplate = WorkloadTemplate()
    topology: Topology = Topology()
    revision_history_limit: int | None = None
    """Old revisions to keep."""


class YurtAppSet(API, frozen=True):
    """One workload per listed node pool."""

    spec: YurtAppSetSpec
    api_version: str = API_VERSION
    kind: str = "YurtAppSet"
    metadata: FreeObject = {}
    status: FreeObject = {}


class YurtAppDaemonSpec(API, frozen=True):
    """Desired state of a YurtAppDaemon."""

    selector: LabelSelector
    """Selects the pods; must match the template's labels."""
    workload_template: WorkloadTemplate = WorkloadTemplate()
    nodepool_selector: LabelSelector | None = None
    """Selects the node pools by their labels."""
    revision_history_limit: int | None = None
    """Old revisions to keep."""


class YurtAppDaemon(API, frozen=True):
    """One workload per node pool that a selector matches."""

    spec: YurtAppDaemonSpec
    api_version: str = API_VERSION
    kind: str = "YurtAppDaemon"
    metadata: FreeObject = {}
    status: FreeObject = {}


class NodePoolSpec(API, frozen=True):
    """Desired state of a NodePool."""

    type: Literal["Edge", "Cloud"] = "Edge"
    """Location of the nodes: edge or cloud."""
    selector: LabelSelector | None = None
    """Selects the pool's nodes."""
    labels: Labels | None = None
    """Put on every node of the pool."""
    annotations: Labels | None = None
    """Put on every node of the pool."""
    taints: list[FreeObject] | None = None
    """Put on every node of the pool."""


class NodePool(API, frozen=True):
    """A set of nodes in one location."""

    spec: NodePoolSpec = NodePoolSpec()
    api_version: str = API_VERSION
    kind: str = "NodePool"
    metadata: FreeObject = {}
    status: FreeObject = {}
