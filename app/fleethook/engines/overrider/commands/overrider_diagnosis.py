"""The checks of ``fleethook doctor`` for overriders: conflicts with OpenYurt, webhooks of others, and policies."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Final

from fleethook.admission.policy import SUFFIX
from fleethook.cli.doctor.doctor_checks import Diagnosis, is_called, name_configuration
from fleethook.cli.doctor.doctor_cluster import Doctor, EngineChecks, run_allowed
from fleethook.cli.doctor.doctor_probes import describe_rights
from fleethook.cluster.kubernetes.resources import DEFINITIONS, WORKLOADS, YURT_APP_OVERRIDERS
from fleethook.cluster.registration.configuration_objects import MUTATING, list_webhooks
from fleethook.cluster.registration.server_side_apply import get_object
from fleethook.engine import Right
from fleethook.engines.overrider.controller.openyurt_conflicts import (
    DEFINITION_NAME,
    RENDERER_REMEDY,
    describe_dropped_members,
    find_dropped_members,
    find_render_webhooks,
)
from fleethook.engines.overrider.policies.mode import MODE, MODE_ANNOTATION, REQUIRED_RESOURCES, Mode
from fleethook.engines.overrider.policies.policy_client import AppliedObject, PolicyClient
from fleethook.model.gvk import GroupVersionResource
from fleethook.model.json import JSON, JSONObject, as_object, list_objects

_WORKLOADS: Final = ("deployments", "statefulsets")


def check_configurations(configurations: Sequence[JSONObject]) -> Iterator[Diagnosis]:
    """Report webhooks of others that get the same objects."""
    renderers = find_render_webhooks(configurations)
    for render in renderers:
        yield Diagnosis("error", "other-webhooks", f"the {render} renders Deployments, too", RENDERER_REMEDY)
    reported = {one.name for one in list_webhooks()} | {one.name for one in renderers}
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


async def _examine_definition(doctor: Doctor) -> AsyncIterator[Diagnosis]:
    path = DEFINITIONS.in_namespace("", DEFINITION_NAME)
    for one in check_definition(await get_object(doctor.connection, path)):
        yield one


def check_definition(definition: JSONObject | None) -> Iterator[Diagnosis]:
    """Check the CustomResourceDefinition of YurtAppOverriders, which OpenYurt may have installed."""
    if definition is None:
        remedy = "install it: the chart's value crds.install, or schemas/crds/"
        yield Diagnosis("error", "versions", "the apiserver has no definition of YurtAppOverriders", remedy)
    elif dropped := find_dropped_members(definition):
        text, _, remedy = describe_dropped_members(dropped).partition("; ")
        yield Diagnosis("warning", "versions", text, remedy)


async def _examine_policies(doctor: Doctor) -> AsyncIterator[Diagnosis]:
    """Yield the findings about policies of overriders, and about the rights to apply them."""
    client = PolicyClient(doctor.connection)
    if not await client.is_served():
        text = "the webhook applies all overriders: the apiserver does not serve MutatingAdmissionPolicy in v1"
        yield Diagnosis("note", "policies", text)
        return
    overriders = await doctor.list_items(YURT_APP_OVERRIDERS.path)
    for one in (*check_objects(await client.find(), overriders), *check_conditions(overriders)):
        yield one
    for account in sorted(doctor.accounts):
        missing = await doctor.find_missing(account, list_policy_rights())
        yield judge_policy_rights(account, missing, modes=find_modes(doctor.pods), overriders=overriders)


_POLICIES_CHECK: Final = "policies"
_API_GROUP: Final = "admissionregistration.k8s.io"
_VARIABLE: Final = "FLEETHOOK_OVERRIDER_MODE"
_MAX_NAMES: Final = 5


def list_policy_rights() -> list[Right]:
    """Return the rights that the modes ``auto`` and ``policy`` need besides those of the mode ``webhook``."""
    found = [
        Right(verb, _API_GROUP, plural)
        for plural in sorted(REQUIRED_RESOURCES)
        for verb in ("create", "patch", "watch")
    ]
    # The leader creates workloads in dry runs only.
    return [*found, *(Right("create", one.group, one.plural) for one in WORKLOADS)]


def find_modes(pods: Iterable[JSONObject]) -> set[str]:
    """Return the values of the setting ``overrider_mode`` in the environments of Pods."""
    return {
        str(variable.get("value"))
        for pod in pods
        for container in as_object(pod.get("spec")).get("containers") or ()
        for variable in container.get("env") or ()
        if variable.get("name") == _VARIABLE
    }


def judge_policy_rights(
    account: str, missing: Sequence[Right], *, modes: set[str], overriders: Iterable[JSONObject]
) -> Diagnosis:
    """Return the finding about the rights of a service account, ``NAMESPACE/NAME``, for policies.

    Args:
        account: The service account.
        missing: The missing rights of `list_policy_rights`.
        modes: The modes of the server's Pods; empty if they are unknown.
        overriders: All overriders. Their annotations may ask for policies.
    """
    if not missing:
        return Diagnosis("ok", _POLICIES_CHECK, f"the service account {account} may apply policies")
    asking = sorted(
        _name(one)
        for one in overriders
        if _annotations(one).get(MODE_ANNOTATION, Mode.WEBHOOK) in (Mode.AUTO, Mode.POLICY)
    )
    text = f"the webhook applies all overriders: the service account {account} must not {describe_rights(missing)}"
    remedy = (
        "set the chart's controller.overriderMode to auto, or compare the server's roles with the chart's rbac.yaml"
    )
    if modes == {Mode.WEBHOOK} and not asking:
        return Diagnosis("ok", _POLICIES_CHECK, "the mode is webhook, so the server needs no rights for policies")
    if asking:
        text += f"; {MODE_ANNOTATION} asks for policies: {_list_names(asking)}"
    return Diagnosis("warning", _POLICIES_CHECK, text, remedy)


def check_objects(objects: "Sequence[AppliedObject]", overriders: Sequence[JSONObject]) -> Iterator[Diagnosis]:
    """Return the findings about policies and bindings that no overrider owns."""
    names = {_name(one) for one in overriders}
    uids = {str(as_object(one.get("metadata")).get("uid")) for one in overriders}
    # `fleethook compile` labels the objects of an overrider without a uid by a hash, which has no hyphen.
    orphans = [one for one in objects if one.overrider not in names or ("-" in one.uid and one.uid not in uids)]
    if orphans:
        listed = _list_names([one.path.partition("/v1/")[2] for one in orphans])
        yield Diagnosis(
            "warning", _POLICIES_CHECK,
            f"no overrider owns {len(orphans)} policies and bindings, which change workloads: {listed}",
            "start the server, whose leader deletes them, or run `fleethook policies remove` or `fleethook uninstall`",
        )  # fmt: skip
    elif objects:
        yield Diagnosis("ok", _POLICIES_CHECK, f"overriders own all {len(objects)} policies and bindings")


def check_conditions(overriders: Iterable[JSONObject]) -> Iterator[Diagnosis]:
    """Return a warning if the server could not apply the policies of an overrider."""
    failed = [
        (_name(one), str(condition.get("message")))
        for one in overriders
        for condition in as_object(one.get("status")).get("conditions") or ()
        if condition.get("type") == MODE and condition.get("reason") == "NotApplied"
    ]
    for name, message in failed[:_MAX_NAMES]:
        yield Diagnosis(
            "warning", _POLICIES_CHECK, f"YurtAppOverrider {name}: {message}", "correct the reason in the message"
        )


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _annotations(overrider: JSONObject) -> Mapping[str, JSON]:
    return as_object(as_object(overrider.get("metadata")).get("annotations"))


def _name(overrider: JSONObject) -> str:
    metadata = as_object(overrider.get("metadata"))
    return f"{metadata.get('namespace')}/{metadata.get('name')}"


CHECKS: Final = EngineChecks(
    check_configurations=check_configurations,
    examine_objects=lambda doctor: run_allowed("versions", _examine_definition(doctor)),
    examine_servers=lambda doctor: run_allowed("policies", _examine_policies(doctor)),
)
"""The checks of registered webhooks for overriders."""
