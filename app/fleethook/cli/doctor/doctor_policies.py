"""Checks of the policies of overriders for ``fleethook doctor``. No I/O."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from fleethook.cli.doctor.doctor_findings import Diagnosis
from fleethook.cli.doctor.doctor_rights import Right, describe_rights
from fleethook.cluster.kubernetes.resources import WORKLOADS
from fleethook.engines.overrider.policies.mode import MODE, MODE_ANNOTATION, REQUIRED_RESOURCES, Mode
from fleethook.model.json import JSON, JSONObject, as_object

if TYPE_CHECKING:
    from fleethook.engines.overrider.policies.policy_client import AppliedObject

_CHECK: Final = "policies"
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
        return Diagnosis("ok", _CHECK, f"the service account {account} may apply policies")
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
        return Diagnosis("ok", _CHECK, "the mode is webhook, so the server needs no rights for policies")
    if asking:
        text += f"; {MODE_ANNOTATION} asks for policies: {_list_names(asking)}"
    return Diagnosis("warning", _CHECK, text, remedy)


def check_objects(objects: "Sequence[AppliedObject]", overriders: Sequence[JSONObject]) -> Iterator[Diagnosis]:
    """Return the findings about policies and bindings that no overrider owns."""
    names = {_name(one) for one in overriders}
    uids = {str(as_object(one.get("metadata")).get("uid")) for one in overriders}
    # `fleethook compile` labels the objects of an overrider without a uid by a hash, which has no hyphen.
    orphans = [one for one in objects if one.overrider not in names or ("-" in one.uid and one.uid not in uids)]
    if orphans:
        listed = _list_names([one.path.partition("/v1/")[2] for one in orphans])
        yield Diagnosis(
            "warning", _CHECK,
            f"no overrider owns {len(orphans)} policies and bindings, which change workloads: {listed}",
            "start the server, whose leader deletes them, or run `fleethook policies remove` or `fleethook uninstall`",
        )  # fmt: skip
    elif objects:
        yield Diagnosis("ok", _CHECK, f"overriders own all {len(objects)} policies and bindings")


def check_conditions(overriders: Iterable[JSONObject]) -> Iterator[Diagnosis]:
    """Return a warning if the server could not apply the policies of an overrider."""
    failed = [
        (_name(one), str(condition.get("message")))
        for one in overriders
        for condition in as_object(one.get("status")).get("conditions") or ()
        if condition.get("type") == MODE and condition.get("reason") == "NotApplied"
    ]
    for name, message in failed[:_MAX_NAMES]:
        yield Diagnosis("warning", _CHECK, f"YurtAppOverrider {name}: {message}", "correct the reason in the message")


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _annotations(overrider: JSONObject) -> Mapping[str, JSON]:
    return as_object(as_object(overrider.get("metadata")).get("annotations"))


def _name(overrider: JSONObject) -> str:
    metadata = as_object(overrider.get("metadata"))
    return f"{metadata.get('namespace')}/{metadata.get('name')}"
