"""The checks of ``fleethook doctor`` for overriders: conflicts with OpenYurt, and webhooks of others."""

from collections.abc import Iterator, Sequence
from typing import Final

from fleethook.cli.doctor.doctor import Doctor, run_allowed
from fleethook.cli.doctor.registered_webhooks import Diagnosis, is_called, name_configuration
from fleethook.cluster.api_errors import get_object
from fleethook.cluster.kubernetes.watched_resources import DEFINITIONS
from fleethook.cluster.registration.rule_webhooks_and_outage import SUFFIX
from fleethook.cluster.registration.webhook_configurations import MUTATING, list_webhooks
from fleethook.engine import Probe
from fleethook.engines.overrider.controller.openyurt_renderer_and_definition import (
    DEFINITION_NAME,
    RENDERER_REMEDY,
    describe_dropped_members,
    find_dropped_members,
    find_render_webhooks,
)
from fleethook.model.gvk import GroupVersionResource
from fleethook.model.json import JSONObject, list_objects
from fleethook.model.openyurt import API_VERSION

_WORKLOADS: Final = ("deployments", "statefulsets")


async def examine(doctor: Doctor, configurations: Sequence[JSONObject]) -> list[Diagnosis]:
    """Return the findings about all webhook configurations, and about the definition of overriders."""
    return [*check_configurations(configurations), *await run_allowed("versions", _examine_definition(doctor))]


def check_configurations(configurations: Sequence[JSONObject]) -> Iterator[Diagnosis]:
    """Report webhooks of others that get the same objects."""
    renderers = find_render_webhooks(configurations)
    for render in renderers:
        yield Diagnosis("error", "other-webhooks", f"the {render} renders Deployments, too", RENDERER_REMEDY)
    reported = {own_webhook.name for own_webhook in list_webhooks()} | {renderer.name for renderer in renderers}
    for configuration in configurations:
        for webhook in list_objects(configuration.get("webhooks")):
            name = str(webhook.get("name") or "")
            kinds = [one for one in _WORKLOADS if is_called(webhook, "UPDATE", GroupVersionResource("apps", "v1", one))]
            if name not in reported and not name.endswith(SUFFIX) and kinds:
                text = f"{name} of {name_configuration(configuration)} is called for {' and '.join(kinds)}, too"
                yield Diagnosis("note", "other-webhooks", text, _describe_order(str(configuration.get("kind"))))


def _describe_order(kind: str) -> str:
    if kind == MUTATING:
        return "do not override the fields that it sets: both webhooks would change them with each write"
    return "if it refuses rendered workloads, correct the overrider: `fleethook render` prints the workloads"


async def _examine_definition(doctor: Doctor) -> list[Diagnosis]:
    path = DEFINITIONS.in_namespace("", DEFINITION_NAME)
    return [*check_definition(await get_object(doctor.connection, path))]


def check_definition(definition: JSONObject | None) -> Iterator[Diagnosis]:
    """Check the CustomResourceDefinition of YurtAppOverriders, which OpenYurt may have installed."""
    if definition is None:
        remedy = "install it: the chart's value crds.install, or schemas/crds/"
        yield Diagnosis("error", "versions", "the apiserver has no definition of YurtAppOverriders", remedy)
    elif dropped := find_dropped_members(definition):
        text, _, remedy = describe_dropped_members(dropped).partition("; ")
        yield Diagnosis("warning", "versions", text, remedy)


def make_probe(name: str) -> Probe:
    """Return a dry run of an overrider with this name and an image that admission refuses."""
    body = {
        "apiVersion": API_VERSION,
        "kind": "YurtAppOverrider",
        "metadata": {"name": name},
        "subject": {"apiVersion": API_VERSION, "kind": "YurtAppSet", "name": name},
        # Valid for every definition of the kind, and no image name: those are lower case.
        "entries": [{"pools": ["*"], "items": [{"image": {"containerName": "a", "imageClaim": "Doctor:1"}}]}],
    }
    return Probe("rules.yurtappoverrider.fleethook.io", "yurtappoverriders", namespaced=True, body=body)
