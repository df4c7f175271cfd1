"""The API server of an instance, read from the instance's Secrets in the host cluster.

Karmada's operator writes both Secrets into the namespace of the instance (upstream: operator/pkg/tasks/init/upload.go).
``status.secretRef`` is not used: a user who may write it could name a Secret of another namespace.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Final, NamedTuple

from fleethook.cluster.connection import Connection
from fleethook.cluster.rest_config import MAX_RESPONSE_BYTES, RestConfig
from fleethook.engines.crds.apply.crd_client import read_namespaced
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.instance.kubeconfig import read_kubeconfig
from fleethook.engines.crds.instance.naming import admin_config_secret_name, cert_secret_name
from fleethook.model.formats.names import is_dns1123_label, is_dns1123_subdomain
from fleethook.model.json import JSON, as_object

_KUBECONFIG: Final = "karmada.config"
_AUTHORITY: Final = "ca.crt"


class Target(NamedTuple):
    """The API server of an instance, and the CA of its webhook."""

    access: RestConfig
    ca_pem: bytes

    def conceal(self, error: CRDsError) -> CRDsError:
        """Return the error with the token redacted: a server may repeat it in a response."""
        token = self.access.token
        if not token or token not in str(error):
            return error
        return CRDsError(error.exit, str(error).replace(token, "<redacted>"), transient=error.transient)


async def read_target(
    host: Connection,
    karmada: Mapping[str, JSON],
    *,
    ca_pem: bytes | None = None,
    max_response_bytes: int = MAX_RESPONSE_BYTES,
) -> Target:
    """Return the API server and the CA of an instance.

    Args:
        host: Connection to the cluster that has the instance and its Secrets.
        karmada: The instance.
        ca_pem: Certificates to use instead of those in its Secret.
        max_response_bytes: The largest response to read from its API server.

    Raises:
        CRDsError: USAGE if a Secret does not exist (transient: the operator may create it soon), is forbidden or lacks
            a key; NETWORK if the host cluster does not answer. The message has no secret.
    """
    metadata = as_object(karmada.get("metadata"))
    name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
    if not is_dns1123_subdomain(name) or not is_dns1123_label(namespace):
        raise CRDsError(Exit.USAGE, "the instance has no valid name or no valid namespace")
    elsewhere = as_object(as_object(as_object(karmada.get("spec")).get("hostCluster")).get("secretRef"))
    if elsewhere.get("name"):
        reason = "its Secrets are in the cluster of spec.hostCluster, which is not read"
        raise CRDsError(Exit.USAGE, f"{reason}: run `crds apply` with the kubeconfig of its API server")
    secret = admin_config_secret_name(name)
    text = await _read_secret_key(host, namespace, secret, _KUBECONFIG)
    try:
        access = read_kubeconfig(text, max_response_bytes=max_response_bytes)
    except CRDsError as error:
        raise CRDsError(error.exit, f"the Secret {secret}, {_KUBECONFIG}: {error}") from None
    if ca_pem is None:
        # The Secret also has the key of the CA, which is not decoded.
        ca_pem = await _read_secret_key(host, namespace, cert_secret_name(name), _AUTHORITY)
    return Target(access, ca_pem)


async def _read_secret_key(host: Connection, namespace: str, name: str, key: str) -> bytes:
    secret = await read_namespaced(host, namespace, "secrets", name)
    if secret is None:
        raise CRDsError(Exit.USAGE, f"there is no Secret {namespace}/{name}", transient=True)
    try:
        value = base64.b64decode(str(as_object(secret.get("data")).get(key) or ""), validate=True)
    except (binascii.Error, ValueError):
        value = b""
    if not value:
        raise CRDsError(Exit.USAGE, f"the Secret {namespace}/{name} has no {key}")
    return value
