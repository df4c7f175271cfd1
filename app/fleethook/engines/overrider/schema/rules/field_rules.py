"""Rules about single members of a workload that kube-apiserver's OpenAPI schema does not express.

Source: pkg/apis/core/validation and pkg/apis/apps/validation of k8s.io/kubernetes v1.36. Members behind feature gates
that are off by default have no rules, because kube-apiserver drops them.
"""

from collections.abc import Mapping
from typing import Final

_NOT_NEGATIVE: Final = (0, None)
_POSITIVE: Final = (1, None)
_PORT: Final = (1, 65535)
_ID: Final = (0, 2**31 - 1)
MAX_MODE: Final = 0o777
_MODE: Final = (0, MAX_MODE)
_WEIGHT: Final = (1, 100)
_BYTE: Final = (0, 255)

LIMITS: Final[Mapping[str, Mapping[str, tuple[int, int | None]]]] = {
    "apps.v1.DeploymentSpec": dict.fromkeys(
        ("minReadySeconds", "progressDeadlineSeconds", "replicas", "revisionHistoryLimit"), _NOT_NEGATIVE
    ),
    "apps.v1.RollingUpdateDeployment": {"maxSurge": _NOT_NEGATIVE, "maxUnavailable": _NOT_NEGATIVE},
    "apps.v1.RollingUpdateStatefulSetStrategy": {"partition": _NOT_NEGATIVE},
    "apps.v1.StatefulSetOrdinals": {"start": _NOT_NEGATIVE},
    "apps.v1.StatefulSetSpec": {"minReadySeconds": _NOT_NEGATIVE, "replicas": _NOT_NEGATIVE},
    "core.v1.AWSElasticBlockStoreVolumeSource": {"partition": _BYTE},
    "core.v1.ConfigMapVolumeSource": {"defaultMode": _MODE},
    "core.v1.ContainerPort": {"containerPort": _PORT, "hostPort": (0, 65535)},
    "core.v1.DownwardAPIVolumeFile": {"mode": _MODE},
    "core.v1.DownwardAPIVolumeSource": {"defaultMode": _MODE},
    "core.v1.GCEPersistentDiskVolumeSource": {"partition": _BYTE},
    "core.v1.GRPCAction": {"port": _PORT},
    "core.v1.HTTPGetAction": {"port": _PORT},
    "core.v1.ISCSIVolumeSource": {"lun": _BYTE},
    "core.v1.KeyToPath": {"mode": _MODE},
    "core.v1.PodSecurityContext": dict.fromkeys(("fsGroup", "runAsGroup", "runAsUser", "supplementalGroups"), _ID),
    "core.v1.PreferredSchedulingTerm": {"weight": _WEIGHT},
    "core.v1.Probe": {
        **dict.fromkeys(
            ("failureThreshold", "initialDelaySeconds", "periodSeconds", "successThreshold", "timeoutSeconds"),
            _NOT_NEGATIVE,
        ),
        "terminationGracePeriodSeconds": _POSITIVE,
    },
    "core.v1.ProjectedVolumeSource": {"defaultMode": _MODE},
    "core.v1.SecretVolumeSource": {"defaultMode": _MODE},
    "core.v1.SecurityContext": {"runAsGroup": _ID, "runAsUser": _ID},
    "core.v1.ServiceAccountTokenProjection": {"expirationSeconds": (600, 2**32)},
    "core.v1.TCPSocketAction": {"port": _PORT},
    "core.v1.TopologySpreadConstraint": {"maxSkew": _POSITIVE, "minDomains": _POSITIVE},
    "core.v1.WeightedPodAffinityTerm": {"weight": _WEIGHT},
}
"""The smallest and the largest number of a member, or of the elements of a list."""

TEXTS: Final[Mapping[str, Mapping[str, str]]] = {
    "apps.v1.RollingUpdateDeployment": {"maxSurge": "percent", "maxUnavailable": "percent"},
    "apps.v1.StatefulSetSpec": {"serviceName": "optional-label"},
    "core.v1.CSIVolumeSource": {"driver": "driver-name"},
    "core.v1.ConfigMapEnvSource": {"name": "subdomain"},
    "core.v1.ConfigMapKeySelector": {"key": "config-map-key", "name": "subdomain"},
    "core.v1.Container": {"name": "label"},
    "core.v1.ContainerPort": {"name": "port-name"},
    "core.v1.DownwardAPIVolumeFile": {"path": "file-path"},
    "core.v1.EnvFromSource": {"prefix": "environment-name"},
    "core.v1.EnvVar": {"name": "environment-name"},
    "core.v1.HTTPGetAction": {"port": "port"},
    "core.v1.HTTPHeader": {"name": "header"},
    "core.v1.HostAlias": {"hostnames": "subdomain", "ip": "ip"},
    "core.v1.HostPathVolumeSource": {"path": "steps"},
    "core.v1.KeyToPath": {"path": "file-path"},
    "core.v1.NFSVolumeSource": {"path": "absolute-path"},
    "core.v1.NodeSelectorRequirement": {"key": "qualified-name"},
    "core.v1.PersistentVolumeClaimSpec": {"storageClassName": "optional-subdomain"},
    "core.v1.PodAffinityTerm": {"namespaces": "label", "topologyKey": "qualified-name"},
    "core.v1.PodDNSConfig": {"nameservers": "ip", "searches": "search-domain"},
    "core.v1.PodReadinessGate": {"conditionType": "qualified-name"},
    "core.v1.PodResourceClaim": {
        "name": "label", "resourceClaimName": "subdomain", "resourceClaimTemplateName": "subdomain",
    },
    "core.v1.PodSchedulingGate": {"name": "qualified-name"},
    "core.v1.PodSpec": {
        "nodeName": "subdomain", "priorityClassName": "subdomain", "runtimeClassName": "subdomain",
        "serviceAccountName": "subdomain",
    },
    "core.v1.SecretEnvSource": {"name": "subdomain"},
    "core.v1.SecretKeySelector": {"key": "config-map-key", "name": "subdomain"},
    "core.v1.ServiceAccountTokenProjection": {"path": "file-path"},
    "core.v1.Sysctl": {"name": "sysctl"},
    "core.v1.TCPSocketAction": {"port": "port"},
    "core.v1.Toleration": {"key": "qualified-name"},
    "core.v1.Volume": {"name": "label"},
    "core.v1.VolumeDevice": {"devicePath": "steps"},
    "core.v1.VolumeMount": {"subPath": "descending-path", "subPathExpr": "descending-path"},
    "meta.v1.LabelSelectorRequirement": {"key": "qualified-name", "values": "label-value"},
}  # fmt: skip
"""The format of a text, or of the texts in a list: a name of `fleethook.engines.overrider.schema.formats.FORMATS`."""

MAPS: Final[Mapping[str, tuple[str, ...]]] = {
    "core.v1.PodSpec": ("nodeSelector",),
    "meta.v1.LabelSelector": ("matchLabels",),
    "meta.v1.ObjectMeta": ("labels",),
}
"""Maps whose keys are label keys and whose values are label values."""

REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "core.v1.ConfigMapEnvSource": ("name",),
    "core.v1.ConfigMapKeySelector": ("name",),
    "core.v1.ConfigMapProjection": ("name",),
    "core.v1.ConfigMapVolumeSource": ("name",),
    "core.v1.Container": ("image",),
    "core.v1.EphemeralVolumeSource": ("volumeClaimTemplate",),
    "core.v1.ExecAction": ("command",),
    "core.v1.PersistentVolumeClaimSpec": ("accessModes",),
    "core.v1.PodDNSConfigOption": ("name",),
    "core.v1.SecretEnvSource": ("name",),
    "core.v1.SecretKeySelector": ("name",),
    "core.v1.SecretProjection": ("name",),
    "core.v1.SecretVolumeSource": ("secretName",),
}
"""Members that kube-apiserver requires beyond those of its schema."""
