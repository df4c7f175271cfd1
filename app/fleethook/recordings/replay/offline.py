"""The settings with which recorded reviews are asked again."""

from typing import Any, Final

OFFLINE: Final[dict[str, Any]] = {
    "manifests": None, "kubeconfig": None, "context": None, "in_cluster": False, "kcp": False, "cert_secret": None,
    "registration": "off", "controller": False, "interpreter_registration": False, "workers": 1,
    "host": "127.0.0.1", "client_ca_file": None, "dispatch_callers": [], "dispatch_open": "loopback",
    "log_reviews": False, "record": None, "record_routes": [],
}  # fmt: skip
"""A replay reads objects itself, follows nothing and writes nothing."""
