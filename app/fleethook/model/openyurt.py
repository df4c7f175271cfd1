"""Names of OpenYurt's API group ``apps.openyurt.io`` of v1.4 to v1.7: kinds, labels and annotations."""

from typing import Final

from fleethook.model.gvk import GroupKind

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
NODE_POOL_VERSIONS: Final = (VERSION, VERSION_V1BETA1, "v1beta2")
"""The versions of node pools, the oldest first; the newest that a cluster serves is read."""

POOL_NAME_LABEL: Final = "apps.openyurt.io/pool-name"
REVISION_LABEL: Final = "apps.openyurt.io/controller-revision-hash"
POOL_PATCH_ANNOTATION: Final = "apps.openyurt.io/patch"
REF_APP_SET_LABEL: Final = "apps.openyurt.io/ref-yurtappset"
"""The label by which a YurtAppSet v1beta1 finds its workloads; a workload without it is released."""
TRIGGER_ANNOTATION: Final = "LastOverrideTime"
NODE_LABEL_NODEPOOL: Final = "apps.openyurt.io/nodepool"
