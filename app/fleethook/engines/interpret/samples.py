"""The example hooks of Karmada's proposal, written as Python interpreters.

``foo.example.com/v1alpha1 Foo``: a controller of the member cluster sets its size and its phase.
``bar.example.com/v1alpha1 Bar``: depends on a ConfigMap and a Secret.
"""

from typing import Any

from fleethook.interpret.python_interpreter import interpreter

foo = interpreter("foo.example.com/v1alpha1", "Foo")
bar = interpreter("bar.example.com/v1alpha1", "Bar")


@foo.retain
def retain_size(desired: dict[str, Any], observed: dict[str, Any]) -> None:
    """Keep the size that the member cluster's controller chose."""
    if "size" in observed.get("spec", {}):
        desired.setdefault("spec", {})["size"] = observed["spec"]["size"]


@foo.healthy
def is_foo_ready(observed: dict[str, Any]) -> bool:
    """Return whether the phase of a Foo is Ready."""
    return bool(observed.get("status", {}).get("phase") == "Ready")


@bar.dependencies
def list_dependencies(declared: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the ConfigMap and the Secret that a Bar reads."""
    spec = declared.get("spec", {})
    return [
        {"apiVersion": "v1", "kind": kind, "namespace": spec.get("namespace", "default"), "name": spec[member]}
        for kind, member in (("ConfigMap", "configMapName"), ("Secret", "secretName"))
        if spec.get(member)
    ]


@bar.healthy
def is_bar_ready(observed: dict[str, Any]) -> bool:
    """Return whether all instances of a Bar are ready."""
    status = observed.get("status", {})
    return bool(status.get("ready", 0) >= observed.get("spec", {}).get("wanted", 1))
