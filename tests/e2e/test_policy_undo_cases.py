"""A policy stores the same workload as the webhook, for each generated case of `tests.e2e.undo_cases`.

The stored workload has the same memory, so the tests of the webhook's workloads in `test_undo_cases` hold for these:
nothing is left after the overrider is deleted, edited or excludes the pool.

    POLICY_UNDO_STRIDE=1 .venv/bin/python -m pytest tests/e2e/test_policy_undo_cases.py -n 2 -s

compares all cases, and prints their number; otherwise those of each twentieth workload.
"""

import itertools
import os
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from fleethook.engines.overrider.policies.mode import Compilation
from fleethook.engines.overrider.render.undo import UNDO_ANNOTATION
from fleethook.model.openyurt import PARTIAL_SUFFIX, RENDERED_ANNOTATION
from tests.builders import NEW_IMAGE, yurt_app_set
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.cluster import RefusedError as ServerRefusedError
from tests.e2e.field_samples import JSONObject
from tests.e2e.field_variants import Server, base_workload
from tests.e2e.policies import Plane, comparable, in_namespace, workloads_path
from tests.e2e.policies import World as Policies
from tests.e2e.policy_examples import batches
from tests.e2e.test_policies import make_namespace, update
from tests.e2e.test_undo_cases import (
    NODE_POOLS,
    POOL,
    WORLDS,
    RefusedError,
    Storage,
    World,
    describe,
    reviews_of,
    storage,
)
from tests.e2e.undo_cases import Case, build_overrider, build_template, cases_of, group

__all__ = ["storage"]

_ELEMENTS = 4
_BATCH = 40
STRIDE = int(os.environ.get("POLICY_UNDO_STRIDE", "20"))


class Group(NamedTuple):
    """Cases of one overrider, with the results of the webhook."""

    cases: list[Case]
    subject: JSONObject
    policies: Policies
    compilation: Compilation
    never: JSONObject
    """The workload that OpenYurt's controller writes, without an overrider."""
    created: JSONObject
    """The result of the webhook for its creation."""
    written: JSONObject
    """What the owner writes over it."""
    rendered: JSONObject
    """The result of the webhook for that."""


class Builder:
    """Makes the groups of a world; counts the cases that have none."""

    def __init__(self, storage: Storage, world: World, prefix: str) -> None:
        self._storage = storage
        self._world = world
        self._prefix = prefix
        self._base = base_workload("default", world.kind)
        self._numbers = itertools.count()
        self.left_out: Counter[str] = Counter()

    def build(self, cases: list[Case]) -> Iterator[Group]:
        """Yield a group of the cases, or several if a policy or kube-apiserver refuses them together."""
        try:
            made = self._try(cases)
        except RefusedError:
            made = "kube-apiserver refuses the workload"
        if isinstance(made, Group):
            yield made
        elif len(cases) > 1:
            half = len(cases) // 2
            yield from self.build(cases[:half])
            yield from self.build(cases[half:])
        else:
            self.left_out[made] += 1

    def _try(self, cases: list[Case]) -> Group | str:
        """Return the group, or why there is none; raises RefusedError."""
        subject = self._world.subject(build_template(self._base, cases))
        rule = build_overrider(cases, subject)
        policies = in_namespace(f"{self._prefix}-{next(self._numbers)}", subject, rule, NODE_POOLS)
        compilation = policies.compile()
        if compilation.refusals:
            return compilation.refusals[0].reason
        if not compilation.objects:
            return "the overrider changes nothing"
        ours = reviews_of(subject, rule)
        never = self._world.write(self._storage, subject)
        created = self._storage.store(ours.review(never))
        written = self._world.write(self._storage, subject, created)
        rendered = self._storage.store(ours.review(written, created))
        return Group(cases, subject, policies, compilation, never, created, written, rendered)


def in_place(document: JSONObject, namespace: str) -> JSONObject:
    """Return a workload in another namespace."""
    return {**document, "metadata": {**document["metadata"], "namespace": namespace}}


def without_memory(document: JSONObject) -> JSONObject:
    """Return the members that a render may change; of the digest, which depends on the namespace, whether it is final."""
    made = comparable(document)
    annotations = {name: one for name, one in made["annotations"].items() if name != UNDO_ANNOTATION}
    digest = annotations.get(RENDERED_ANNOTATION, "")
    return {
        **made,
        "annotations": {**annotations, RENDERED_ANNOTATION: digest and str(digest.endswith(PARTIAL_SUFFIX))},
    }


class Comparison:
    """Compares the results of policies with those of the webhook."""

    def __init__(self, policies: Plane, storage: Storage) -> None:
        self._policies = policies
        self._storage = storage

    def run(self, group: Group) -> Iterator[str]:
        """Yield the faults."""
        labels = [case.label for case in group.cases]
        try:
            yield from (f"{labels}: {one}" for one in self._compare(group))
        except (ServerRefusedError, RefusedError) as error:
            yield f"{labels}: refused: {error}"

    def _compare(self, group: Group) -> Iterator[str]:
        never = in_place(group.never, group.policies.namespace)
        stored = self._policies.api.create(workloads_path(never), never)
        yield from self._differences("creation", group, stored, group.created)
        written = in_place(group.written, group.policies.namespace)
        yield from self._differences("owner writes", group, update(self._policies, written), group.rendered)
        if comparable(update(self._policies, stored)) != comparable(stored):
            yield "a second write changes it"

    def _differences(self, scenario: str, group: Group, made: JSONObject, expected: JSONObject) -> Iterator[str]:
        found, wanted = without_memory(made), without_memory(expected)
        if found != wanted:
            yield f"{scenario}: {describe(found, wanted)}"
        memories = [one["metadata"]["annotations"].get(UNDO_ANNOTATION) for one in (made, expected)]
        if memories[0] != memories[1]:
            # They may name other members, if kube-apiserver stores the same without the overrider.
            moved = in_place(made, "default")
            restored = self._storage.store(reviews_of(group.subject, None).review(moved, moved))
            if comparable(restored) != comparable(group.never):
                yield f"{scenario}, then deleted: {describe(comparable(restored), comparable(group.never))}"


@pytest.mark.parametrize("world", WORLDS, ids=lambda one: one.name)
def test_a_policy_stores_what_the_webhook_stores(
    plane: ControlPlane, admin: Api, storage: Storage, world: World
) -> None:
    prefix = f"u-{uuid.uuid4().hex[:6]}"
    policies = Plane(admin, make_namespace(admin, f"{prefix}-plain"))
    server = Server(admin, base_workload("default", world.kind))
    cases = [one for one in cases_of(server, world.kind) if world.copies(one)]
    builder = Builder(storage, world, prefix)
    chosen = group(cases, _ELEMENTS)[::STRIDE]
    groups = [one for few in chosen for one in builder.build(few)]
    comparison = Comparison(policies, storage)
    faults: list[str] = []
    for number, batch in enumerate(batches(groups, _BATCH)):
        for one in batch:
            make_namespace(admin, one.policies.namespace)
        # Its namespace is new, so that no policy of an earlier batch is mistaken for the last one of this batch.
        last = in_namespace(make_namespace(admin, f"{prefix}-last-{number}"), yurt_app_set(), NEW_IMAGE, {POOL: None})
        installed = [*((one.policies, one.compilation) for one in batch), (last, last.compile())]
        policies.install(installed)
        faults += [fault for one in batch for fault in comparison.run(one)]
        policies.uninstall(installed)
    compared = sum(len(one.cases) for one in groups)
    print(  # noqa: T201 - quoted in reports
        f"\n{world.name}: {compared} of {sum(map(len, chosen))} cases in {len(groups)} overriders; "
        f"without a policy: {dict(builder.left_out)}"
    )
    assert compared > 0.95 * sum(map(len, chosen))
    assert not faults, f"{len(faults)} faults\n" + "\n".join(faults[:100])
