"""``bar.example.com/v1alpha1 Bar``: needs the ConfigMap and the Secret that it names."""

from typing import Any

from app.interpret.python_interpreter import interpreter

bar = interpreter("bar.example.com/v1alpha1", "Bar")


@bar.dependencies
def dependencies(declared: dict[str, Any]) -> list[dict[str, Any]]:
    """What a Bar reads has to be there with it."""
    spec = declared.get("spec", {})
    return [
        {"apiVersion": "v1", "kind": kind, "namespace": spec.get("namespace", "default"), "name": spec[member]}
        for kind, member in (("ConfigMap", "configMapName"), ("Secret", "secretName"))
        if spec.get(member)
    ]


@bar.healthy
def healthy(observed: dict[str, Any]) -> bool:
    """A Bar is well when everything that it asked for is there."""
    status = observed.get("status", {})
    return bool(status.get("ready", 0) >= observed.get("spec", {}).get("wanted", 1))
