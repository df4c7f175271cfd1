"""Removes all policies of overriders, and makes the webhook responsible for their workloads before."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.registration.condition_client import ConditionClient
from fleethook.cluster.registration.match_conditions import Selection, SubjectName
from fleethook.engines.overrider.policies.applying.policy_client import AppliedObject, PolicyClient

# The configuration was deleted or changed after it was read.
_CONFLICTS: Final = (404, 409)
_MAX_TRIES: Final = 5
# Apiservers follow the webhook configuration by a watch, usually within milliseconds.
_WATCH_SECONDS: Final = 2.0


class Removal(NamedTuple):
    """The result of a removal."""

    subjects: tuple[SubjectName, ...]
    """The subjects whose workloads needed no webhook before."""
    objects: tuple[AppliedObject, ...]
    """The deleted bindings and policies, in their order."""
    left: tuple[AppliedObject, ...]
    """Objects that exist afterwards, because a leader has applied them again."""


async def remove_policies(
    policies: PolicyClient, conditions: ConditionClient, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> Removal:
    """End the exemptions from the webhook, then delete the bindings, then the policies.

    Args:
        policies: Finds and deletes the objects.
        conditions: Reads and writes the match conditions of the webhooks.
        sleep: Waits for a number of seconds.

    Raises:
        APIError: The apiserver refuses a request.
        UnreachableError: The apiserver does not respond.
    """
    subjects = await _end_exemptions(conditions)
    if subjects:
        # Without a policy, an exempt update of a rendered workload would lose its overrides.
        await sleep(_WATCH_SECONDS)
    objects = await policies.find()
    await policies.delete(one.path for one in objects)
    return Removal(tuple(sorted(subjects)), tuple(objects), tuple(await policies.find()))


async def _end_exemptions(conditions: ConditionClient) -> frozenset[SubjectName]:
    """Return the subjects that were exempt."""
    for attempt in range(_MAX_TRIES):
        registered = await conditions.read()
        listed = None if registered is None else registered.listed
        if registered is None or listed is None or not listed.covered:
            return frozenset()
        closed, opened, covered, namespaces = listed
        wanted = Selection(closed | (covered - opened), opened, frozenset(), namespaces)
        try:
            await conditions.write(registered, wanted, announcements=registered.announcements)
        except APIError as error:
            if error.code not in _CONFLICTS or attempt == _MAX_TRIES - 1:
                raise
        else:
            return covered
    return frozenset()
