"""Callers of dispatch: service accounts with tokens and rights in logical clusters."""

from collections.abc import Sequence
from typing import Any

from tests.e2e.cluster import Api
from tests.e2e.fleet import RBAC

ROUTES = ("mutate", "validate", "explain")


class Caller:
    """A service account in the namespace of a test."""

    def __init__(self, admin: Api, namespace: str, name: str = "caller") -> None:
        self._admin = admin
        self._namespace = namespace
        self._name = name
        self._role = f"{namespace}-{name}"
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
        admin.apply(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}", account)

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self._namespace}:{self._name}"

    def permit(self, *clusters: str, routes: Sequence[str] = ROUTES) -> None:
        """Grant the right that the documentation names."""
        resources = [f"clusters/{route}" for route in routes]
        rules = [
            {"apiGroups": ["fleethook.io"], "resources": resources, "resourceNames": [*clusters], "verbs": ["create"]}
        ]
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": self._role}}
        self._admin.apply(f"{RBAC}/clusterroles/{self._role}", {**role, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": self._name, "namespace": self._namespace}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": self._role}
        binding = {**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
        self._admin.apply(f"{RBAC}/clusterrolebindings/{self._role}", binding)

    def forbid(self) -> None:
        """Remove the right."""
        self._admin.delete(f"{RBAC}/clusterrolebindings/{self._role}")

    def token(self, *audiences: str) -> str:
        """Return a token; without audiences it is for the apiserver."""
        spec: dict[str, Any] = {"audiences": list(audiences)} if audiences else {}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{self._name}/token"
        token: str = self._admin.create(path, request)["status"]["token"]
        return token
