"""Derives the JSON Schema of workloads from the OpenAPI schemas of kube-apiserver, with the rules about single members.

OpenAPI v3.0 is less strict than kube-apiserver's decoder. So this module forbids unknown members, sets the limits of
integer formats, and gives quantities and int-or-string values a form that a validator can report. The rules are those
of pkg/apis/core/validation and pkg/apis/apps/validation of k8s.io/kubernetes v1.36. Members behind feature gates that
are off by default have no rules, because kube-apiserver drops them.
"""

from collections.abc import Mapping
from typing import Final

from fleethook.model.json import JSON, JSONObject
from fleethook.workload_schema.formats_and_messages import FORMATS, MAX_MODE, QUANTITY

_NOT_NEGATIVE: Final = (0, None)
_POSITIVE: Final = (1, None)
_PORT: Final = (1, 65535)
_ID: Final = (0, 2**31 - 1)
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
"""The format of a text, or of the texts in a list: a name of `FORMATS`."""

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


_PREFIXES: Final = ("io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apimachinery.pkg.")
_REFERENCE: Final = "#/components/schemas/"
_INT_LIMITS: Final = {
    name: {"minimum": -(2 ** (bits - 1)), "maximum": 2 ** (bits - 1) - 1}
    for name, bits in (("int32", 32), ("int64", 64))
}

_SPECIAL: Final[Mapping[str, JSONObject]] = {
    "api.resource.Quantity": {"type": ["string", "number"], "format": QUANTITY},
    "util.intstr.IntOrString": {"type": ["integer", "string"], **_INT_LIMITS["int32"]},
}

# kube-apiserver and the owner write these. A template from a manifest lacks members such as the owner's uid.
_NOT_CHECKED: Final = (
    "apps.v1.DeploymentStatus", "apps.v1.StatefulSetStatus", "core.v1.PersistentVolumeClaimStatus",
    "meta.v1.ManagedFieldsEntry", "meta.v1.OwnerReference",
)  # fmt: skip

# Required members whose zero value kube-apiserver accepts. So it also accepts objects without them.
_ZERO_ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    "core.v1.HTTPHeader": ("value",),
    "core.v1.ISCSIVolumeSource": ("lun",),
    "core.v1.PreferredSchedulingTerm": ("preference",),
    "core.v1.ScaleIOVolumeSource": ("secretRef",),
    "core.v1.SleepAction": ("seconds",),
    "core.v1.Sysctl": ("value",),
}


def derive_definitions(openapi: Mapping[str, JSONObject]) -> dict[str, JSONObject]:
    """Return the definitions of a JSON Schema by the names of `go_structs.load_structs`.

    Args:
        openapi: OpenAPI schemas by their names, such as ``io.k8s.api.core.v1.Container``.
    """
    return {short_name(name): _convert_definition(short_name(name), schema) for name, schema in openapi.items()}


def short_name(name: str) -> str:
    """Return the name of a struct from that of its OpenAPI schema."""
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _convert_definition(name: str, schema: JSONObject) -> JSONObject:
    if name in _NOT_CHECKED:
        return {"type": "object"}
    if name in _SPECIAL:
        return _SPECIAL[name]
    derived = _convert_schema(schema)
    if "properties" in derived:
        derived["additionalProperties"] = False
        _add_field_rules(name, derived["properties"])
        published = [one for one in derived.pop("required", ()) if one not in _ZERO_ALLOWED.get(name, ())]
        _require(derived, [*published, *REQUIRED.get(name, ())])
    return derived


def _add_field_rules(struct: str, members: dict[str, JSONObject]) -> None:
    for member, (smallest, largest) in LIMITS.get(struct, {}).items():
        limits = {"minimum": smallest} | ({} if largest is None else {"maximum": largest})
        _add_to_value(members, member, limits)
    for member, text_format in TEXTS.get(struct, {}).items():
        # The validator checks no format of an empty text, so that it reports that text only once.
        not_empty = {} if FORMATS[text_format]("") is None else {"minLength": 1}
        _add_to_value(members, member, {"format": text_format, **not_empty})
    for member in MAPS.get(struct, ()):
        members[member]["additionalProperties"] = {"type": "string", "format": "label-value"}


def _add_to_value(members: dict[str, JSONObject], member: str, rules: JSONObject) -> None:
    """Add rules to the schema of a member, or of the elements of a list."""
    schema = members[member]
    if "items" in schema:
        members[member] = {**schema, "items": {**schema["items"], **rules}}
    elif "$ref" in schema:
        # A draft 4 schema has no rules beside a reference. The referenced schema is an int-or-string value.
        members[member] = {**_SPECIAL[schema["$ref"].removeprefix("#/definitions/")], **rules}
    else:
        members[member] = {**schema, **rules}


def _require(definition: JSONObject, members: list[str]) -> None:
    """Require members. Strings must not be empty either, because kube-apiserver treats empty strings as absent."""
    for member in members:
        if definition["properties"][member].get("type") == "string":
            definition["properties"][member]["minLength"] = 1
    if members:  # draft 4 does not allow an empty list
        definition["required"] = members


def _convert_schema(schema: JSONObject) -> JSONObject:
    """Convert a schema of OpenAPI v3.0 to JSON Schema."""
    if "allOf" in schema:  # a reference with a default beside it
        (schema,) = schema["allOf"]
    if "$ref" in schema:
        return {"$ref": f"#/definitions/{short_name(schema['$ref'].removeprefix(_REFERENCE))}"}
    return {word: _RULES[word](value) for word, value in schema.items() if word in _RULES} | _INT_LIMITS.get(
        schema.get("format", ""), {}
    )


def _keep(value: JSON) -> JSON:
    return value


def _convert_properties(value: JSONObject) -> JSONObject:
    return {name: _convert_schema(inner) for name, inner in value.items()}


_RULES: Final = {
    "type": _keep, "enum": _keep, "required": _keep, "format": _keep,
    "items": _convert_schema, "additionalProperties": _convert_schema, "properties": _convert_properties,
}  # fmt: skip
