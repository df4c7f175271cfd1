"""The Secrets that Karmada's operator writes for an instance (operator/pkg/tasks/init/upload.go, v1.16.0)."""

import base64
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.cluster import Api, ControlPlane


def encode_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def admin_config(
    plane: ControlPlane, *, server: str | None = None, user: dict[str, Any] | None = None, **cluster: Any
) -> bytes:
    """The kubeconfig of an instance whose API server is a control plane of the tests."""
    pair = plane.authority.issue("karmada-admin", "system:masters")
    admin = {
        "client-certificate-data": encode_base64(pair.certificate.read_bytes()),
        "client-key-data": encode_base64(pair.key.read_bytes()),
    }
    authority = encode_base64(plane.authority.certificate.read_bytes())
    return yaml.safe_dump(
        {
            "apiVersion": "v1", "kind": "Config", "preferences": {},
            "current-context": "karmada-admin@karmada-apiserver",
            "clusters": [
                {
                    "name": "karmada-apiserver",
                    "cluster": {"server": server or plane.url, "certificate-authority-data": authority, **cluster},
                }
            ],
            "users": [{"name": "karmada-admin", "user": admin if user is None else user}],
            "contexts": [
                {
                    "name": "karmada-admin@karmada-apiserver",
                    "context": {"cluster": "karmada-apiserver", "user": "karmada-admin"},
                }
            ],
        }
    ).encode()  # fmt: skip


def create_secrets(admin: Api, namespace: str, name: str, *, config: bytes, authority: Path) -> None:
    """Create both Secrets of an instance whose name has no "karmada" in it."""
    for suffix, data in (
        ("cert", {"ca.crt": authority.read_bytes(), "ca.key": b"the key of the CA"}),
        ("admin-config", {"karmada.config": config}),
    ):
        metadata = {"name": f"{name}-karmada-{suffix}", "namespace": namespace}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        content = {key: encode_base64(value) for key, value in data.items()}
        admin.create(f"/api/v1/namespaces/{namespace}/secrets", {**secret, "data": content})
