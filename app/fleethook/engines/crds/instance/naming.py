"""Names of the objects of an instance in its host cluster (upstream: operator/pkg/util/naming.go, v1.16.0)."""


def webhook_name(instance: str) -> str:
    """Return the name of the Service of an instance's webhook."""
    return _resource_name(instance, "webhook")


def cert_secret_name(instance: str) -> str:
    """Return the name of the Secret that has the certificates of an instance, its CA (``ca.crt``) among them."""
    return _resource_name(instance, "cert")


def admin_config_secret_name(instance: str) -> str:
    """Return the name of the Secret that has the kubeconfig (``karmada.config``) of an instance's API server."""
    return _resource_name(instance, "admin-config")


def _resource_name(instance: str, suffix: str) -> str:
    return f"{instance}-{suffix}" if "karmada" in instance else f"{instance}-karmada-{suffix}"
