"""Five rules that policy libraries have, for Pods: ``fleethook serve --rules rules.py``."""

from typing import Any

from fleethook.admission import Denied, Request, mutate, validate

LABELS = ("app.kubernetes.io/name", "owner")
REGISTRY = "registry.example.com/"


def list_containers(pod: Any) -> list[tuple[str, Any]]:
    """Return the fields of all containers, with the containers."""
    kinds = ("initContainers", "containers", "ephemeralContainers")
    return [(f"spec.{kind}[{index}]", one) for kind in kinds for index, one in enumerate(pod.spec.get(kind, []))]


@validate("v1", "Pod")
def required_labels(request: Request) -> None:
    """Pods have labels that name the application and its owner."""
    for label in LABELS:
        if not request.labels.get(label):
            raise Denied(f"label `{label}` is missing", field="metadata.labels")


@validate("v1", "Pod")
def image_registries(pod: Any) -> None:
    """Images come from the registry of the company."""
    for field, container in list_containers(pod):
        if not container.image.startswith(REGISTRY):
            raise Denied(f"the image is not of {REGISTRY}", field=f"{field}.image")


@validate("v1", "Pod")
def no_latest(pod: Any) -> None:
    """Images have a tag other than latest, or a digest."""
    for field, container in list_containers(pod):
        tag = container.image.rpartition("/")[2].partition(":")[2]
        if tag in ("", "latest"):
            raise Denied("use a fixed tag", field=f"{field}.image")


@validate("v1", "Pod", on="CREATE")
def resource_limits(pod: Any) -> None:
    """Containers have a memory limit and requests."""
    for index, container in enumerate(pod.spec.containers):
        resources = container.get("resources", {})
        for kind, name in (("requests", "cpu"), ("requests", "memory"), ("limits", "memory")):
            if name not in resources.get(kind, {}):
                raise Denied("is missing", field=f"spec.containers[{index}].resources.{kind}.{name}")


@mutate("v1", "Pod", on="CREATE", match_conditions={"linux": "object.spec.?os.name.orValue('') != 'windows'"})
def seccomp(pod: Any) -> None:
    """Pods have the seccomp profile of their container runtime."""
    pod.spec.setdefault("securityContext", {}).setdefault("seccompProfile", {"type": "RuntimeDefault"})
