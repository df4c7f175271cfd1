"""The engine that renders workloads for each node pool, as YurtAppOverriders describe."""

# ruff: noqa: PLC0415 - each command reads this record, so it imports as little as possible

from typing import TYPE_CHECKING, Final, Literal, TypedDict

from fleethook.engine import CommandSpec, Engine

if TYPE_CHECKING:
    from fleethook.cluster.registration.webhook_configurations import OwnWebhook

_FOLDER: Final = "fleethook.engines.overrider"


class _Advising(TypedDict):
    """The policies of a webhook whose reviews may be skipped."""

    failure_policy: Literal["Ignore"]
    match_policy: Literal["Exact"]


ENGINE: Final = Engine(
    name="overrider",
    order=10,
    system="OpenYurt",
    server=f"{_FOLDER}.overrider_server:OverriderServer",
    resources=f"{_FOLDER}.overrider_server:list_resources",
    indexes=f"{_FOLDER}.subject.bound_overriders:INDEXES",
    settings=f"{_FOLDER}.overrider_settings:OverriderSettings",
    commands={
        "render": CommandSpec(
            f"{_FOLDER}.commands.render:render", "Print the workload of every node pool, before you apply anything."
        ),
        "diff": CommandSpec(
            f"{_FOLDER}.commands.diff:diff",
            "Print the effect of applying files on running workloads: rollouts, scales, creations and deletions.",
        ),
    },
    webhooks=f"{_FOLDER}.engine:list_webhooks",
    probe=f"{_FOLDER}.commands.overrider_doctor:make_probe",
    doctor=f"{_FOLDER}.commands.overrider_doctor:examine",
    uninstall=f"{_FOLDER}.commands.workload_restoration:restore_all",
    lint=f"{_FOLDER}.commands.overrider_lint:lint_overriders",
    page=f"{_FOLDER}.pages.overriders:PAGE",
)
"""All that the engine contributes."""


def list_webhooks() -> "tuple[OwnWebhook, ...]":
    """Return the webhooks for overriders, their subjects and workloads, in their order in a configuration."""
    from fleethook.cluster.registration import paths
    from fleethook.cluster.registration.webhook_configurations import MUTATING, NOT_DELETING, VALIDATING, OwnWebhook
    from fleethook.engines.overrider.subject.match_condition_texts import DELETES_NOW, OWNED, SPEC_CHANGES
    from fleethook.model.json import JSONObject
    from fleethook.model.openyurt import GROUP, POOL_NAME_LABEL, VERSION, VERSION_V1BETA1

    # These reviews refuse nothing, so they may be skipped while this server does not respond. A failed conversion
    # refuses the request with any failurePolicy, so kube-apiserver must not convert.
    advising: _Advising = {"failure_policy": "Ignore", "match_policy": "Exact"}
    pooled: JSONObject = {"matchExpressions": [{"key": POOL_NAME_LABEL, "operator": "Exists"}]}
    return (
        OwnWebhook(
            "deployments.overrider.fleethook.io", MUTATING, paths.MUTATE_DEPLOYMENT, "apps", "v1", ("deployments",),
            pooled, (NOT_DELETING, OWNED), gets_selected=True,
        ),
        OwnWebhook(
            "statefulsets.overrider.fleethook.io", MUTATING, paths.MUTATE_STATEFULSET, "apps", "v1",
            ("statefulsets",), pooled, (NOT_DELETING, OWNED), gets_selected=True,
        ),
        # These webhooks never refuse a workload. Match conditions send each workload to one of them, or to one of those
        # above.
        OwnWebhook(
            "deployments.optional.overrider.fleethook.io", MUTATING, paths.MUTATE_DEPLOYMENT, "apps", "v1",
            ("deployments",), pooled, (NOT_DELETING, OWNED), **advising, gets_selected=True,
        ),
        OwnWebhook(
            "statefulsets.optional.overrider.fleethook.io", MUTATING, paths.MUTATE_STATEFULSET, "apps", "v1",
            ("statefulsets",), pooled, (NOT_DELETING, OWNED), **advising, gets_selected=True,
        ),
        OwnWebhook(
            "defaults.yurtappoverrider.fleethook.io", MUTATING, paths.MUTATE_OVERRIDER, GROUP, VERSION,
            ("yurtappoverriders",), {}, (NOT_DELETING,),
        ),
        OwnWebhook(
            "rules.yurtappoverrider.fleethook.io", VALIDATING, paths.VALIDATE_OVERRIDER, GROUP, VERSION,
            ("yurtappoverriders",), {}, (NOT_DELETING,),
            # The review announces the subject of a new overrider (`announcements.Announcer`).
            side_effects="NoneOnDryRun",
        ),
        OwnWebhook(
            "deletion.yurtappoverrider.fleethook.io", VALIDATING, paths.VALIDATE_OVERRIDER, GROUP, VERSION,
            ("yurtappoverriders",), {}, (DELETES_NOW,), **advising, operations=("DELETE",),
        ),
        OwnWebhook(
            "fit.yurtappset.fleethook.io", VALIDATING, paths.VALIDATE_APP_SET, GROUP, VERSION,
            ("yurtappsets",), {}, (NOT_DELETING, SPEC_CHANGES), **advising,
        ),
        # kube-apiserver sends an edit in the version of the request, if that version is registered.
        OwnWebhook(
            "fit.v1beta1.yurtappset.fleethook.io", VALIDATING, paths.VALIDATE_APP_SET_V1BETA1, GROUP,
            VERSION_V1BETA1, ("yurtappsets",), {}, (NOT_DELETING, SPEC_CHANGES), **advising,
        ),
        OwnWebhook(
            "fit.yurtappdaemon.fleethook.io", VALIDATING, paths.VALIDATE_APP_DAEMON, GROUP, VERSION,
            ("yurtappdaemons",), {}, (NOT_DELETING, SPEC_CHANGES), **advising,
        ),
    )  # fmt: skip
