"""The API server of an instance: read from the instance's Secrets in the host cluster, and requests about CRDs.

Karmada's operator writes both Secrets into the namespace of the instance (upstream: operator/pkg/tasks/init/upload.go).
``status.secretRef`` is not used: a user who may write it could name a Secret of another namespace.

The Secret is in the namespace of the instance, so any of its users may have written it. Only inline credentials are
accepted: exec plugins would run programs here, and file names would send files of this machine to the server.

The errors of requests are CRDsErrors.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.connection import APPLY_PATCH, MAX_RESPONSE_BYTES, Connection, RestConfig
from fleethook.cluster.kubernetes.resources import KARMADAS, api_path
from fleethook.engines.crds.apply.crd_patches import Patch
from fleethook.engines.crds.archive.crd_content import ArchiveLimits, YAMLBudget, read_document
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.instance.karmada_instance import admin_config_secret_name, cert_secret_name
from fleethook.model.formats.labels import is_dns1123_label, is_dns1123_subdomain
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.operator import KARMADA
from fleethook.outbound.endpoint import Credential, CredentialError
from fleethook.outbound.tls.trust import TrustError, create_context

_NOT_FOUND: Final = 404
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500


async def request_object(
    connection: Connection, method: str, path: str, *, about: str, **rest: JSON
) -> Mapping[str, JSON] | None:
    """Send a request and return the object of the response, or None for 404.

    Args:
        connection: Connection to the API server.
        method: HTTP method.
        path: Path of the URL.
        about: The object or kind, for errors.
        rest: More arguments for `fleethook.cluster.connection.Connection.request`.

    Raises:
        CRDsError: NETWORK without a response; HTTP with the server's message if it refuses.
    """
    try:
        return as_object(await connection.json(method, path, **rest))
    except APIError as error:
        if error.code == _NOT_FOUND:
            return None
        transient = error.code >= _SERVER_ERROR or error.code == _TOO_MANY_REQUESTS
        raise CRDsError(Exit.HTTP, f"{about}: {error}", transient=transient) from None
    except UnreachableError as error:
        raise CRDsError(Exit.NETWORK, f"{about}: {error}", transient=True) from None
    except msgspec.DecodeError:
        raise CRDsError(Exit.HTTP, f"{about}: {connection.host} does not answer like an apiserver") from None


async def read_namespaced(host: Connection, namespace: str, plural: str, name: str) -> JSONObject | None:
    """Return an object of the core group in the namespace of an instance, or None for 404.

    Raises:
        CRDsError: USAGE if reading is forbidden, NETWORK without a response. The message has no value of the object.
    """
    try:
        return dict(as_object(await host.json("GET", f"{api_path('', 'v1')}/namespaces/{namespace}/{plural}/{name}")))
    except APIError as error:
        if error.code == _NOT_FOUND:
            return None
        raise CRDsError(Exit.USAGE, f"cannot read {plural}/{name}: {error}", transient=True) from None
    except (UnreachableError, msgspec.DecodeError) as error:
        raise CRDsError(Exit.NETWORK, f"cannot read {plural}/{name}: {error}", transient=True) from None


FIELD_MANAGER: Final = "karmada-operator"
"""The field manager of Karmada's operator, so that both can apply in turn without conflicts.

Upstream: operator/pkg/util/apiclient/idempotency.go (v1.17.1).
"""
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KIND: Final = "customresourcedefinitions"


async def find(connection: Connection, name: str) -> Mapping[str, JSON] | None:
    """Return a stored CRD, or None if the server has none of that name; raises as `apply`."""
    return await _request(connection, "GET", name)


async def find_all(connection: Connection) -> list[Mapping[str, JSON]]:
    """Return all CRDs of the server; raises as `apply`."""
    found = as_object(await _request(connection, "GET", ""))
    items = found.get("items")
    return [as_object(one) for one in items] if isinstance(items, list) else []


async def apply(connection: Connection, name: str, crd: JSONObject, *, dry_run: bool) -> Mapping[str, JSON]:
    """Apply a CRD with force, and return the resulting object.

    Raises:
        CRDsError: NETWORK without a response, HTTP with the server's message if it refuses.
    """
    query = {"fieldManager": FIELD_MANAGER, "force": "true", **_build_dry_run_query(dry_run=dry_run)}
    return await _write(connection, name, query=query, body=crd, content_type=APPLY_PATCH)


async def patch(connection: Connection, one: Patch, *, dry_run: bool) -> Mapping[str, JSON]:
    """Send a patch and return the resulting CRD; raises as `apply`."""
    query = {"fieldManager": FIELD_MANAGER, **_build_dry_run_query(dry_run=dry_run)}
    return await _write(connection, one.crd, query=query, body=one.body, content_type=STRATEGIC_MERGE_PATCH)


def _build_dry_run_query(*, dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


async def _write(connection: Connection, name: str, **rest: JSON) -> Mapping[str, JSON]:
    found = await _request(connection, "PATCH", name, **rest)
    if found is None:
        raise CRDsError(Exit.HTTP, f"{name}: the server has no such CRD")
    return found


async def _request(connection: Connection, method: str, name: str, **rest: JSON) -> Mapping[str, JSON] | None:
    return await request_object(connection, method, f"{_CRDS}/{name}".rstrip("/"), about=name or _KIND, **rest)


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
        reason = "its Secrets are in the cluster of spec.hostCluster, which fleethook does not read"
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
