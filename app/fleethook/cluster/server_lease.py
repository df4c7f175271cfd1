"""The Lease of the server's leader. The server competes for it, and the console shows it."""

from pathlib import Path
from typing import Final

from fleethook.model.gvk import GroupKind
from fleethook.settings import Settings

NAME: Final = "fleethook"
"""The name of the Lease."""
LEASE: Final = GroupKind("coordination.k8s.io", "Lease")
"""Its kind."""
RESOURCE: Final = "leases"
"""Its resource."""
_POD_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def find_namespace(settings: Settings, *, pod_file: Path = _POD_NAMESPACE_FILE) -> str:
    """Return the namespace of the Lease: from the settings, else that of the pod, the Service or the Secret.

    Args:
        settings: The settings of the server, or of the console.
        pod_file: The file with the pod's namespace, which is read only with in-cluster credentials.
    """
    if settings.namespace is not None:
        return settings.namespace
    if settings.in_cluster and pod_file.exists():
        return pod_file.read_text().strip()
    for namespaced_name in (settings.service, settings.cert_secret):
        if namespaced_name is not None:
            return namespaced_name.partition("/")[0]
    return "kube-system"
