"""``fleethook policies``: the MutatingAdmissionPolicies of overriders in a cluster."""

import asyncio
from typing import TYPE_CHECKING

from fleethook.cli.command_line import Group
from fleethook.cli.exit_codes import CHECK_FAILED, fail
from fleethook.cli.inputs.kubeconfig import TargetOptions
from fleethook.cli.output.terminal import write

if TYPE_CHECKING:
    from fleethook.engines.overrider.policies.policy_client import Removal


def remove(changed: TargetOptions = TargetOptions()) -> None:
    """Delete all policies of overriders, for example after a rollback to a version without policies.

    Because the command deletes objects, one of --kubeconfig, --context and --in-cluster must name the cluster.

    First, the webhook becomes responsible for the workloads of all overriders. Then the command deletes bindings, then
    policies. Set the mode webhook before, if a server of this version runs: its leader applies policies again.

    The user needs the rights to get and patch the MutatingWebhookConfiguration fleethook, and to list and delete
    mutatingadmissionpolicies and mutatingadmissionpolicybindings.

    Exit codes: 0 success; 1 a leader has applied policies again; 2 invalid arguments, or a request failed.
    """
    from fleethook.cluster.api_errors import APIError, UnreachableError  # noqa: PLC0415 - see fleethook.cluster
    from fleethook.cluster.registration.condition_client import ConditionClient  # noqa: PLC0415 - as above
    from fleethook.engines.overrider.policies.policy_client import PolicyClient, remove_policies  # noqa: PLC0415 - as above

    target = changed.find_to_change()

    async def run() -> "Removal":
        async with target.connect() as connection:
            return await remove_policies(PolicyClient(connection), ConditionClient(connection))

    try:
        done = asyncio.run(run())
    except (APIError, UnreachableError) as error:
        fail(f"cannot remove the policies: {error}")
    _print(done)


def _print(done: "Removal") -> None:
    for subject in done.subjects:
        write(f"the webhook renders the workloads of {subject.kind} {subject.namespace}/{subject.name}")
    for one in done.objects:
        write(f"deleted {one.path.partition('/v1/')[2]} of YurtAppOverrider {one.overrider or one.uid}")
    if not done.objects:
        write("no policies found")
    if done.left:
        fail(
            f"{len(done.left)} policies and bindings exist again: set the mode webhook (chart value "
            "controller.overriderMode), or stop the server",
            code=CHECK_FAILED,
        )


policies = Group("Manage the MutatingAdmissionPolicies of overriders in a cluster.", {"remove": remove})
