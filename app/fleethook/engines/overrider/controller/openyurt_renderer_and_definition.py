"""Finds settings of OpenYurt that conflict with overriders: its own renderer, and definitions that drop members.

OpenYurt 1.4 to 1.6 have a renderer of their own, a webhook on Deployments that is on by default. Beside another
renderer it causes a second rollout, and it ignores exclusions. OpenYurt also installs a CustomResourceDefinition of
YurtAppOverriders without the newer items and without a status.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from fleethook.cluster.registration.webhook_configurations import list_definitions
from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.model.formats.text import list_names
from fleethook.model.gvk import DEFINITION, GroupKind
from fleethook.model.json import JSON, JSONObject, as_object, list_objects
from fleethook.model.openyurt import GROUP, VERSION
from fleethook.server.health import Check

_log: Final = logging.getLogger(__name__)

MUTATING_CONFIGURATION: Final = GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration")

# pkg/yurtmanager/webhook/deploymentrender/v1alpha1/deploymentrender_webhook.go, OpenYurt v1.4.4.
_RENDER_PATH: Final = "/mutate-apps-v1-deployment"
_OURS: Final = ".fleethook.io"
_VENDOR: Final = "yurt"

DEFINITION_NAME: Final = f"yurtappoverriders.{GROUP}"
_DEFINITION_REMEDY: Final = (
    "neither the chart nor --register replaces a definition of OpenYurt: run `kubectl apply --server-side "
    f"--force-conflicts -f schemas/crds/{DEFINITION_NAME}.yaml`, and apply the overriders again"
)
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_MAX_NAMED: Final = 8
_SHOWN: Final = {"status": "status (so kubectl get yao shows no state)"}


class RenderWebhook(NamedTuple):
    """A webhook of OpenYurt that renders Deployments."""

    configuration: str
    name: str

    def __str__(self) -> str:
        return f"webhook {self.name} of MutatingWebhookConfiguration {self.configuration}"


def find_render_webhooks(configurations: Iterable[JSONObject]) -> tuple[RenderWebhook, ...]:
    """Return OpenYurt's webhooks that render Deployments, by configuration and name.

    controller-runtime gives every webhook on Deployments the same path. So the name of the configuration, the webhook
    or the service must contain the vendor, too.

    Args:
        configurations: MutatingWebhookConfigurations of any shape.
    """
    webhooks = [
        RenderWebhook(_get_name(configuration), str(webhook.get("name") or ""))
        for configuration in configurations
        for webhook in list_objects(configuration.get("webhooks"))
        if _renders(_get_name(configuration), webhook)
    ]
    return tuple(sorted(webhooks))


def _renders(configuration: str, webhook: JSONObject) -> bool:
    client = as_object(webhook.get("clientConfig"))
    service = as_object(client.get("service"))
    path = str(service.get("path") or client.get("url") or "")
    name = str(webhook.get("name") or "")
    vendors = (configuration, name, str(service.get("name") or ""))
    return (
        path.endswith(_RENDER_PATH)
        and not name.endswith(_OURS)
        and any(_VENDOR in text for text in vendors)
        and any(_selects_deployments(rule) for rule in list_objects(webhook.get("rules")))
    )


def _selects_deployments(rule: JSONObject) -> bool:
    groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
    return bool({"apps", "*"} & set(groups)) and bool({"deployments", "*", "*/*"} & set(resources))


def find_dropped_members(definition: JSONObject) -> tuple[str, ...]:
    """Return the paths of the members of YurtAppOverriders that an apiserver with this definition drops.

    Args:
        definition: The installed CustomResourceDefinition.

    Returns:
        The paths; ``status`` is the first one, because messages name only some.
    """
    spec = as_object(definition.get("spec"))
    versions = [version for version in list_objects(spec.get("versions")) if version.get("name") == VERSION]
    if not versions:
        return ()
    definition = next(one for one in list_definitions()["overrider"] if one["metadata"]["name"] == DEFINITION_NAME)
    (own,) = definition["spec"]["versions"]
    schema = as_object(as_object(versions[0].get("schema")).get("openAPIV3Schema"))
    dropped = list(_find_missing(own["schema"]["openAPIV3Schema"], schema, ""))
    if "status" not in as_object(versions[0].get("subresources")):
        dropped.append("status")
    return tuple(sorted(dict.fromkeys(dropped), key=lambda path: path != "status"))


def _find_missing(needed: JSONObject, installed: JSON, path: str) -> Iterator[str]:
    """Yield the paths of the properties that only the needed schema has."""
    installed = as_object(installed)
    if installed.get(_PRESERVE):
        return
    if "items" in needed:
        yield from _find_missing(needed["items"], installed.get("items"), f"{path}[]")
    known = as_object(installed.get("properties"))
    for name, schema in as_object(needed.get("properties")).items():
        inner = f"{path}.{name}" if path else name
        if name in known:
            yield from _find_missing(schema, known[name], inner)
        elif not isinstance(installed.get("additionalProperties"), dict):
            yield inner


class OpenYurtConflicts:
    """The conflicts in the store's webhook configurations and definitions, logged when they change."""

    def __init__(self, store: Store) -> None:
        """Follow the store.

        Args:
            store: MutatingWebhookConfigurations, and CustomResourceDefinitions with the schema of YurtAppOverriders.
        """
        self._findings: Final[dict[ObjectKey, tuple[str, ...]]] = {}
        store.subscribe(self._update)

    def findings(self) -> tuple[str, ...]:
        """Return the conflicts, a sentence each."""
        return tuple(text for texts in self._findings.values() for text in texts)

    def describe(self) -> str:
        """Return `findings` as one text, ``""`` if there are none."""
        return "; ".join(self.findings())

    def checks(self) -> Iterator[Check]:
        """Yield the entries of the health page about the conflicts."""
        for text in self.findings():
            yield Check("openyurt", ok=True, detail=text)

    def _update(self, key: ObjectKey, _before: Stored | None, after: JSONObject | None) -> None:
        # Only the changed object is read, because kcp has thousands of configurations.
        if key.group_kind == MUTATING_CONFIGURATION:
            self._set(key, () if after is None else tuple(map(describe_render_webhook, find_render_webhooks((after,)))))
        elif key.group_kind == DEFINITION and key.name == DEFINITION_NAME:
            self._set(key, () if after is None else _describe_definition(after))

    def _set(self, key: ObjectKey, found: tuple[str, ...]) -> None:
        former = self._findings.pop(key, ())
        if found:
            self._findings[key] = found
        for text in found:
            if text not in former:
                _log.warning("%s", text)
        if former and not found:
            _log.info("resolved: %s", "; ".join(former))


def _describe_definition(definition: JSONObject) -> tuple[str, ...]:
    dropped = find_dropped_members(definition)
    return (describe_dropped_members(dropped),) if dropped else ()


RENDERER_REMEDY: Final = (
    "start yurt-manager with --controllers=*,-yurt-app-overrider-controller: it registers the webhook again if you "
    "remove it from the configuration (docs/openyurt-versions.md)"
)


def describe_render_webhook(webhook: RenderWebhook) -> str:
    """Return the effect of OpenYurt's render webhook, and the option that disables it."""
    return (
        f"OpenYurt's own renderer is on ({webhook}): it ignores exclusions of node pools and causes a second "
        f"rollout; {RENDERER_REMEDY}"
    )


def describe_dropped_members(dropped: tuple[str, ...]) -> str:
    """Return the members of overriders that are lost, and the definition that keeps them."""
    named = list_names([_SHOWN.get(path, path) for path in dropped], most=_MAX_NAMED)
    return (
        f"the installed CustomResourceDefinition {DEFINITION_NAME} silently drops {named}, as OpenYurt's own "
        f"does; {_DEFINITION_REMEDY}"
    )


def _get_name(document: JSONObject) -> str:
    return str(as_object(document.get("metadata")).get("name") or "")
