"""The API server of an instance, read from the instance's Secrets in the host cluster.

Karmada's operator writes both Secrets into the namespace of the instance (upstream: operator/pkg/tasks/init/upload.go).
``status.secretRef`` is not used: a user who may write it could name a Secret of another namespace.

The Secret is in the namespace of the instance, so any of its users may have written it. Only inline credentials are
accepted: exec plugins would run programs here, and file names would send files of this machine to the server.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from fleethook.cluster.connection import MAX_RESPONSE_BYTES, Connection, RestConfig
from fleethook.cluster.kubernetes.resources import KARMADAS
from fleethook.engines.crds.apply.crd_client import read_namespaced, request_object
from fleethook.engines.crds.archive.archive_limits import ArchiveLimits, YAMLBudget
from fleethook.engines.crds.archive.crd_content import read_document
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.instance.karmada_release import admin_config_secret_name, cert_secret_name
from fleethook.model.formats.names import is_dns1123_label, is_dns1123_subdomain
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.operator import KARMADA
from fleethook.outbound.endpoint import Credential, CredentialError
from fleethook.outbound.tls.trust import TrustError, create_context

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


# Upstream's kubeconfig has 8 KiB and about 30 nodes.
_LIMITS: Final = ArchiveLimits(yaml_bytes=128 * 1024, yaml_nodes=1000, yaml_depth=20)
_CLUSTER: Final = {"server", "certificate-authority-data"}
_USER: Final = {"client-certificate-data", "client-key-data", "token"}
_BEARER: Final = "Bearer "


def read_kubeconfig(text: bytes, *, max_response_bytes: int) -> RestConfig:
    """Return the server and credentials of a kubeconfig's current context.

    Args:
        text: The kubeconfig, YAML.
        max_response_bytes: The largest response to read from the server.

    Raises:
        CRDsError: USAGE if it is not a kubeconfig, lacks a field, or has fields that upstream does not write. The
            message has no value of the kubeconfig.
    """
    try:
        config = as_object(read_document("kubeconfig", text, YAMLBudget(_LIMITS)).value)
    except CRDsError:
        # The reason could quote a credential.
        raise _make_error("it is not YAML, or too large") from None
    context = _find_named(config, "contexts", "context", config.get("current-context"))
    cluster = _find_named(config, "clusters", "cluster", context.get("cluster"))
    user = _find_named(config, "users", "user", context.get("user"))
    _check_members("cluster", cluster, _CLUSTER)
    _check_members("user", user, _USER)
    try:
        credential = Credential(
            token=_read_text(user, "token").encode(),
            certificate_pem=_decode(user, "client-certificate-data"),
            key_pem=_decode(user, "client-key-data"),
        )
        tls = create_context(base64.b64encode(_decode(cluster, "certificate-authority-data")).decode(), credential)
    except (CredentialError, TrustError) as error:
        raise _make_error(str(error)) from None
    return RestConfig(
        _check_server(_read_text(cluster, "server")),
        tls,
        credential.authorization.removeprefix(_BEARER),
        max_response_bytes,
    )


def _make_error(reason: str) -> CRDsError:
    return CRDsError(Exit.USAGE, f"the kubeconfig cannot be used: {reason}")


def _find_named(config: Mapping[str, JSON], plural: str, member: str, name: JSON) -> Mapping[str, JSON]:
    listed = config.get(plural)
    for one in map(as_object, listed if isinstance(listed, list) else ()):
        if isinstance(name, str) and one.get("name") == name:
            return as_object(one.get(member))
    raise _make_error(f"it does not have the {member} of its current-context")


def _check_members(what: str, found: Mapping[str, JSON], known: set[str]) -> None:
    others = sorted(name for name, value in found.items() if name not in known and value)
    if others:
        raise _make_error(f"{', '.join(others)} of its {what} is not supported: credentials must be inline")
    missing = sorted(name for name in known if not found.get(name))
    # Without authorities, the client would trust those of the system.
    if what == "cluster" and missing:
        raise _make_error(f"its cluster has no {', '.join(missing)}")


def _check_server(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "https" and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "@" in parts.netloc or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise _make_error("its server is not an https URL with a host")
    return url


def _read_text(found: Mapping[str, JSON], name: str) -> str:
    value = found.get(name, "")
    if not isinstance(value, str):
        raise _make_error(f"{name} is not a string")
    return value


def _decode(found: Mapping[str, JSON], name: str) -> bytes:
    try:
        return base64.b64decode(_read_text(found, name), validate=True)
    except (binascii.Error, ValueError):
        raise _make_error(f"{name} is not base64") from None


async def list_instances(host: Connection) -> list[JSONObject]:
    """Return all instances; raises CRDsError USAGE if the cluster has no such kind, NETWORK or HTTP."""
    found = await request_object(host, "GET", KARMADAS.path, about=KARMADAS.name)
    if found is None:
        raise CRDsError(
            Exit.USAGE, f"{host.host} does not serve {KARMADAS.name}: give the kubeconfig of the host cluster"
        )
    items = found.get("items")
    return [dict(as_object(one)) for one in items] if isinstance(items, list) else []


async def find_instance(host: Connection, namespace: str, name: str) -> JSONObject:
    """Return one instance; raises CRDsError USAGE if there is none, NETWORK or HTTP."""
    usable = is_dns1123_label(namespace) and is_dns1123_subdomain(name)
    path = KARMADAS.in_namespace(namespace, name)
    found = await request_object(host, "GET", path, about=KARMADAS.name) if usable else None
    if found is None:
        raise CRDsError(Exit.USAGE, f"there is no {KARMADA.kind} {namespace}/{name} at {host.host}")
    return dict(found)
