from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.server_lease import find_namespace
from fleethook.settings import Settings


@pytest.mark.parametrize(
    ("fields", "namespace"),
    [
        ({"namespace": "given", "in_cluster": True, "service": "of-service/s"}, "given"),
        ({"in_cluster": True, "service": "of-service/s"}, "of-pod"),
        ({"kubeconfig": "k", "service": "of-service/s", "cert_secret": "of-secret/s"}, "of-service"),
        ({"kubeconfig": "k", "cert_secret": "of-secret/s"}, "of-secret"),
        ({"kubeconfig": "k"}, "kube-system"),
    ],
)
def test_the_namespace_of_the_lease_has_an_order_of_origins(
    fields: dict[str, Any], namespace: str, tmp_path: Path
) -> None:
    pod = tmp_path / "namespace"
    pod.write_text("of-pod\n")
    assert find_namespace(Settings(**fields), pod_file=pod) == namespace


def test_without_the_file_of_a_pod_the_service_counts(tmp_path: Path) -> None:
    settings = Settings(in_cluster=True, service="of-service/s")
    assert find_namespace(settings, pod_file=tmp_path / "none") == "of-service"
