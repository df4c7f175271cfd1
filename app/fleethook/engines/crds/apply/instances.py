"""Reads the instances (``Karmada`` objects) of a host cluster."""

from fleethook.cluster.connection import Connection
from fleethook.cluster.kubernetes.resources import KARMADAS
from fleethook.engines.crds.apply.crd_client import request_object
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.model.formats.names import is_dns1123_label, is_dns1123_subdomain
from fleethook.model.json import JSONObject, as_object
from fleethook.model.operator import KARMADA


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
