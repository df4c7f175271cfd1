"""Callers of dispatch: service accounts with tokens and rights in logical clusters."""

from collections.abc import Sequence

from tests.e2e.cluster import Api
from tests.e2e.fleet import RBAC, grant, token

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
        subject = {"kind": "ServiceAccount", "name": self._name, "namespace": self._namespace}
        grant(self._admin, self._role, rules, subject)

    def forbid(self) -> None:
        """Remove the right."""
        self._admin.delete(f"{RBAC}/clusterrolebindings/{self._role}")

    def token(self, *audiences: str) -> str:
        """Return a token; without audiences it is for the apiserver."""
        spec = {"audiences": list(audiences)} if audiences else {}
        return token(self._admin, self._namespace, self._name, **spec)
