"""The five rules of examples/policies/rules.py as handlers of kopf: `kopf_server.py --rules`."""

import kopf

from kopf._cogs.structs.references import Resource  # isort: skip

RESOURCE = Resource("", "v1", "pods", "Pod", namespaced=True)
registry = kopf.OperatorRegistry()

LABELS = ("app.kubernetes.io/name", "owner")
REGISTRY = "registry.example.com/"


def validate(rule):
    return kopf.on.validate("", "v1", "pods", registry=registry, id=f"rules/validate/{rule}", operations=["CREATE"])


def list_containers(spec):
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, one in enumerate(spec.get(kind, [])):
            yield f"spec.{kind}[{index}]", one


@validate("required-labels")
async def required_labels(labels, **_):
    for label in LABELS:
        if not labels.get(label):
            raise kopf.AdmissionError(f"metadata.labels: label `{label}` is missing", code=403)


@validate("image-registries")
async def image_registries(spec, **_):
    for field, container in list_containers(spec):
        if not container["image"].startswith(REGISTRY):
            raise kopf.AdmissionError(f"{field}.image: the image is not of {REGISTRY}", code=403)


@validate("no-latest")
async def no_latest(spec, **_):
    for field, container in list_containers(spec):
        if container["image"].rpartition("/")[2].partition(":")[2] in ("", "latest"):
            raise kopf.AdmissionError(f"{field}.image: use a fixed tag", code=403)


@validate("resource-limits")
async def resource_limits(spec, **_):
    for index, container in enumerate(spec["containers"]):
        resources = container.get("resources", {})
        for kind, name in (("requests", "cpu"), ("requests", "memory"), ("limits", "memory")):
            if name not in resources.get(kind, {}):
                raise kopf.AdmissionError(f"spec.containers[{index}].resources.{kind}.{name}: is missing", code=403)


@kopf.on.mutate("", "v1", "pods", registry=registry, id="rules/mutate/seccomp", operations=["CREATE"])
async def seccomp(spec, patch, **_):
    if "seccompProfile" not in spec.get("securityContext", {}):
        patch.spec["securityContext"] = {"seccompProfile": {"type": "RuntimeDefault"}}
