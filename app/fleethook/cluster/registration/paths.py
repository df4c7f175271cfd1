"""The URL paths of reviews.

They follow controller-runtime's convention ``/mutate-<group>-<version>-<kind>``, so that existing tools can parse them.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from fleethook.model.json import as_object

MUTATE_DEPLOYMENT: Final = "/mutate-apps-v1-deployment"
MUTATE_STATEFULSET: Final = "/mutate-apps-v1-statefulset"
MUTATE_OVERRIDER: Final = "/mutate-apps-openyurt-io-v1alpha1-yurtappoverrider"
VALIDATE_OVERRIDER: Final = "/validate-apps-openyurt-io-v1alpha1-yurtappoverrider"
VALIDATE_APP_SET: Final = "/validate-apps-openyurt-io-v1alpha1-yurtappset"
VALIDATE_APP_SET_V1BETA1: Final = "/validate-apps-openyurt-io-v1beta1-yurtappset"
VALIDATE_APP_DAEMON: Final = "/validate-apps-openyurt-io-v1alpha1-yurtappdaemon"
VALIDATE_HOOKS: Final = "/validate-config-karmada-io-v1alpha1-resourceexploringwebhookconfiguration"
VALIDATE_CONFIG_MAP: Final = "/validate-v1-configmap"
VALIDATE_CUSTOMIZATION: Final = "/validate-config-karmada-io-v1alpha1-resourceinterpretercustomization"
EXPLORE: Final = "/explore"
EXPLORE_FOO: Final = "/explore-foo"
EXPLORE_BAR: Final = "/explore-bar"
INTERPRET: Final = "/interpret"
DISPATCH_MUTATE: Final = "/dispatch/mutate"
DISPATCH_VALIDATE: Final = "/dispatch/validate"
CLUSTERS: Final = "/clusters/"
CLUSTER_MUTATE: Final = "/clusters/{cluster}/mutate"
CLUSTER_VALIDATE: Final = "/clusters/{cluster}/validate"
CLUSTER_EXPLAIN: Final = "/clusters/{cluster}/explain"
OBSERVE: Final = "/observe"
MUTATE_KARMADA: Final = "/mutate-operator-karmada-io-v1alpha1-karmada"
VALIDATE_KARMADA: Final = "/validate-operator-karmada-io-v1alpha1-karmada"
RULES: Final = "/rules/"
UNKNOWN_RULE: Final = "/rules/{rule}"
"""The route of reviews for rules that a server does not have."""
_CONSUMER_SLASHES: Final = 5  # /rules/validate/NAME/CLUSTER/TOKEN


def split_cluster_path(path: str) -> tuple[str, str]:
    """Return the route and the logical cluster of a path below `CLUSTERS`; of any other path, the path and ``""``."""
    if not path.startswith(CLUSTERS):
        return path, ""
    cluster, _, verb = path.removeprefix(CLUSTERS).rpartition("/")
    return f"{CLUSTERS}{{cluster}}/{verb}", cluster


def find_route(path: str) -> str:
    """Return the route with parameters that a path without a route of its own may belong to."""
    return UNKNOWN_RULE if path.startswith(RULES) else split_cluster_path(path)[0]


def split_consumer_path(path: str) -> tuple[str, str, str]:
    """Return the route, the logical cluster and the token of a path that only one workspace of kcp calls.

    A path without them has ``""`` for both.
    """
    if path.startswith(RULES) and path.count("/") == _CONSUMER_SLASHES:
        route, cluster, token = path.rsplit("/", 2)
        return route, cluster, token
    return path, "", ""


def build_rule_path(name: str, *, mutates: bool) -> str:
    """Return the path of the reviews for an admission rule in Python."""
    return f"{RULES}{'mutate' if mutates else 'validate'}/{name}"


def find_rule_path(webhook: Mapping[str, Any]) -> str:
    """Return the path that a webhook in a configuration calls, ``""`` if it is none of an admission rule in Python."""
    called = as_object(webhook.get("clientConfig"))
    path = as_object(called.get("service")).get("path") or urlsplit(str(called.get("url") or "")).path
    return split_consumer_path(path)[0] if isinstance(path, str) and path.startswith(RULES) else ""
