"""Two admission rules: ``fleethook serve --rules rules.py``."""

from typing import Any

from fleethook.admission import Denied, Request, mutate, validate


@validate("apps/v1", "Deployment", on=("CREATE", "UPDATE"), namespace_selector={"matchLabels": {"team": "web"}})
def needs_owner(request: Request) -> None:
    """Every Deployment names its owner."""
    if "owner" not in request.labels:
        raise Denied("label `owner` is missing", field="metadata.labels")


@mutate("v1", "Pod", match_conditions={"linux": "object.spec.?os.name.orValue('') != 'windows'"})
def default_seccomp(pod: Any) -> None:
    """Pods have the seccomp profile of their container runtime."""
    pod.spec.setdefault("securityContext", {}).setdefault("seccompProfile", {"type": "RuntimeDefault"})
