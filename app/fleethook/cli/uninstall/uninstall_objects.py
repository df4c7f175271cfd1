"""Recognizes the objects that fleethook or its chart has created in a cluster. No I/O."""

import re
from collections.abc import Iterator
from typing import Final

from fleethook.cluster.kubernetes.resources import WatchedResource, decode_metadata, decode_object
from fleethook.cluster.registration.webhooks import CONFIGURATION_NAME, LABELS
from fleethook.model.json import JSONObject, as_object

_RBAC: Final = "rbac.authorization.k8s.io"
NAME_LABEL: Final = "app.kubernetes.io/name"
NAME: Final = LABELS[NAME_LABEL]
_CHART: Final = re.compile(r"fleethook-\d")
"""The value of ``helm.sh/chart``, which the chart's value ``nameOverride`` does not change."""
COMPONENTS: Final = frozenset({NAME, f"{NAME}-crds", f"{NAME}-console"})
WEBHOOK_SUFFIX: Final = ".fleethook.io"
_SECRET_KEYS: Final = frozenset({"ca.key", "tls.key", "tls.crt"})

_BINDINGS: Final = WatchedResource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", decode_metadata)
_ROLES: Final = WatchedResource(_RBAC, "v1", "clusterroles", "ClusterRole", decode_metadata)
# Bindings first: a role without its binding grants nothing.
RIGHTS: Final = (
    _BINDINGS,
    _BINDINGS._replace(plural="rolebindings", kind="RoleBinding"),
    _ROLES,
    _ROLES._replace(plural="roles", kind="Role"),
)
LEASES: Final = WatchedResource("coordination.k8s.io", "v1", "leases", "Lease", decode_object)
SECRETS: Final = WatchedResource("", "v1", "secrets", "Secret", decode_object)
DEPLOYMENTS: Final = WatchedResource("apps", "v1", "deployments", "Deployment", decode_metadata)
# The deletion of another definition would delete subjects, and with these their workloads.
DELETABLE_DEFINITIONS: Final = frozenset({"yurtappoverriders", "resourceexploringwebhookconfigurations"})


def is_ours(document: JSONObject) -> bool:
    """Return whether fleethook or its chart has created an object, by its labels."""
    labels = as_object(document["metadata"].get("labels"))
    return labels.get(NAME_LABEL) in COMPONENTS or bool(_CHART.match(str(labels.get("helm.sh/chart"))))


def is_our_configuration(document: JSONObject) -> bool:
    """Return whether a configuration calls fleethook only: by its name, its labels, or the names of its webhooks."""
    names = [str(one.get("name")) for one in document.get("webhooks") or ()]
    named = bool(names) and all(name.endswith(WEBHOOK_SUFFIX) for name in names)
    return document["metadata"]["name"] == CONFIGURATION_NAME or is_ours(document) or named


def guess_secrets(configuration: JSONObject) -> Iterator[tuple[str, str]]:
    """Yield the Secrets of the chart's servers: those of earlier versions have no label."""
    for webhook in configuration.get("webhooks") or ():
        service = as_object(as_object(webhook.get("clientConfig")).get("service"))
        if service:
            yield str(service.get("namespace")), f"{service.get('name')}-certs"


def has_our_keys(secret: JSONObject) -> bool:
    """Return whether a Secret has the keys that `fleethook.cluster.certificates.secret_store` writes."""
    return as_object(secret.get("data")).keys() >= _SECRET_KEYS


def names_of(document: JSONObject) -> tuple[str, str]:
    """Return the namespace and the name of an object."""
    metadata = document["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def path_of(resource: WatchedResource, document: JSONObject) -> str:
    """Return the path of an object in the version in which it was read."""
    version = document["apiVersion"].rpartition("/")[2]
    return resource._replace(version=version).in_namespace(*names_of(document))
