"""``bar.example.com/v1alpha1 Bar``: depends on a ConfigMap and a Secret."""

from typing import Any

from fleethook.interpret.python_interpreter import interpreter

bar = interpreter("bar.example.com/v1alpha1", "Bar")


@bar.dependencies
def dependencies(declared: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the ConfigMap and the Secret that a Bar reads."""
    spec = declared.get("spec", {})
    return [
        {"apiVersion": "v1", "kind": kind, "namespace": spec.get("namespace", "default"), "name": spec[member]}
        for kind, member in (("ConfigMap", "configMapName"), ("Secret", "secretName"))
        if spec.get(member)
    ]


@bar.healthy
def healthy(observed: dict[str, Any]) -> bool:
    """Return whether all instances of a Bar are ready."""
    status = observed.get("status", {})
    return bool(status.get("ready", 0) >= observed.get("spec", {}).get("wanted", 1))
