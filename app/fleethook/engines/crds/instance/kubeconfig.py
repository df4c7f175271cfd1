"""Parses the kubeconfig that Karmada's operator writes for an instance (upstream: operator/pkg/tasks/init/upload.go).

The Secret is in the namespace of the instance, so any of its users may have written it. Only inline credentials are
accepted: exec plugins would run programs here, and file names would send files of this machine to the server.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from fleethook.cluster.rest_config import RestConfig
from fleethook.engines.crds.archive.limits import ArchiveLimits, YAMLBudget
from fleethook.engines.crds.archive.yaml_document import read_document
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.model.json import JSON, as_object
from fleethook.outbound.tls.credential import Credential, CredentialError
from fleethook.outbound.tls.trust import TrustError, create_context

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
