"""``foo.example.com/v1alpha1 Foo``: a controller of the member cluster sets its size and its phase."""

from typing import Any

from fleethook.interpret.python_interpreter import interpreter

foo = interpreter("foo.example.com/v1alpha1", "Foo")


@foo.retain
def retain(desired: dict[str, Any], observed: dict[str, Any]) -> None:
    """Keep the size that the member cluster's controller chose."""
    if "size" in observed.get("spec", {}):
        desired.setdefault("spec", {})["size"] = observed["spec"]["size"]


@foo.healthy
def healthy(observed: dict[str, Any]) -> bool:
    """Return whether the phase of a Foo is Ready."""
    return bool(observed.get("status", {}).get("phase") == "Ready")
