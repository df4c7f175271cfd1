"""The instances of a host cluster, read once."""

from collections.abc import Mapping
from typing import Final

import msgspec

from app.crds.failures import CRDsError, Exit
from app.kube.connection import Connection
from app.kube.errors import APIError, UnreachableError
from app.model.json import JSON, JSONObject, as_object
from app.model.names import is_dns1123_label, is_dns1123_subdomain
from app.model.operator import KARMADA
from app.store.sources.kubernetes.resources import KARMADAS

_NOT_FOUND: Final = 404


async def list_instances(host: Connection) -> list[JSONObject]:
    """Return all instances; raises CRDsError USAGE if the cluster has no such kind, NETWORK or HTTP."""
    found = await _answer(host, KARMADAS.path)
    if found is None:
        raise CRDsError(
            Exit.USAGE, f"{host.host} does not serve {KARMADAS.name}: give the kubeconfig of the host cluster"
        )
    items = found.get("items")
    return [dict(as_object(one)) for one in items] if isinstance(items, list) else []


async def find_instance(host: Connection, namespace: str, name: str) -> JSONObject:
    """Return one instance; raises CRDsError USAGE if there is none, NETWORK or HTTP."""
    usable = is_dns1123_label(namespace) and is_dns1123_subdomain(name)
    found = await _answer(host, KARMADAS.in_namespace(namespace, name)) if usable else None
    if found is None:
        raise CRDsError(Exit.USAGE, f"there is no {KARMADA.kind} {namespace}/{name} at {host.host}")
    return dict(found)


async def _answer(host: Connection, path: str) -> Mapping[str, JSON] | None:
    try:
        return as_object(await host.json("GET", path))
    except APIError as error:
        if error.code == _NOT_FOUND:
            return None
        raise CRDsError(Exit.HTTP, f"{KARMADAS.name}: {error}") from None
    except UnreachableError as error:
        raise CRDsError(Exit.NETWORK, f"{KARMADAS.name}: {error}") from None
    except msgspec.DecodeError:
        raise CRDsError(Exit.HTTP, f"{KARMADAS.name}: what answers at {host.host} is no apiserver") from None
