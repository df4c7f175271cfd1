"""The Service in front of the server, and its Pods, for ``fleethook doctor``. No I/O."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from app.cli.doctor_findings import Diagnosis, Registered
from app.model.json import JSONObject, as_object

_CHECK: Final = "service"
_DEFAULT_PORT: Final = 443


class ServiceName(NamedTuple):
    """A Service that webhooks name, and the port."""

    namespace: str
    name: str
    port: int


def find_services(registered: Iterable[Registered]) -> list[ServiceName]:
    """Return the Services that webhooks name, sorted."""
    named = [one.service for one in registered if one.service]
    return sorted(
        {ServiceName(str(one["namespace"]), str(one["name"]), int(one.get("port") or _DEFAULT_PORT)) for one in named}
    )


def check_service(name: ServiceName, service: JSONObject | None, slices: Sequence[JSONObject]) -> Diagnosis:
    """Check that a Service has the port that webhooks name, and a ready endpoint."""
    shown = f"{name.namespace}/{name.name}"
    if service is None:
        remedy = (
            "install the chart in this namespace, correct clientConfig.service of the webhooks, or remove fleethook by "
            "`fleethook uninstall`"
        )
        return Diagnosis("error", _CHECK, f"the Service {shown} of the webhooks does not exist", remedy)
    ports = [as_object(one).get("port") for one in as_object(service.get("spec")).get("ports") or ()]
    if name.port not in ports:
        present = ", ".join(map(str, ports)) or "none"
        text = f"the webhooks name port {name.port} of the Service {shown}, which has {present}"
        return Diagnosis("error", _CHECK, text, "correct the port of the webhooks or of the Service")
    ready = _count_ready(slices)
    if not ready:
        remedy = "look why no Pod is ready: `kubectl describe pod`, the log of the server, GET /readyz"
        return Diagnosis("error", _CHECK, f"the Service {shown} has no ready endpoint", remedy)
    return Diagnosis("ok", _CHECK, f"the Service {shown} has {ready} ready endpoint{'' if ready == 1 else 's'}")


def _count_ready(slices: Iterable[JSONObject]) -> int:
    """Return the number of ready addresses. An absent condition means ready (discovery.k8s.io/v1)."""
    endpoints = [as_object(one) for each in slices for one in each.get("endpoints") or ()]
    return sum(
        len(one.get("addresses") or ())
        for one in endpoints
        if as_object(one.get("conditions")).get("ready") is not False
    )


def find_accounts(pods: Iterable[JSONObject]) -> set[str]:
    """Return the service accounts of Pods as ``NAMESPACE/NAME``."""
    found = set()
    for one in pods:
        namespace, spec = as_object(one.get("metadata")).get("namespace"), as_object(one.get("spec"))
        found.add(f"{namespace}/{spec.get('serviceAccountName') or 'default'}")
    return found
