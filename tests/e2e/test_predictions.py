"""The predictions of ``fleethook diff`` and ``replay`` are the outcomes, in a fleet of 500 workloads with real ReplicaSets."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.builders import entry, image, overrider, patch
from tests.e2e.cluster import ControlPlane
from tests.e2e.fleet import run_registered_server
from tests.e2e.openyurt import V1_5
from tests.e2e.openyurt_v1beta1 import V1Beta1
from tests.e2e.predictions import Prediction, State, find_mismatches, observe, predict, read_states
from tests.e2e.replays import Replay, run_replay, wait_for_records
from tests.e2e.scenario import BEIJING, Scenario, apply_node_pools, scenario
from tests.serving import MUTATE
from tests.waiting import wait_for

JSONObject = dict[str, Any]
States = dict[tuple[str, str], State]

POOLS = [f"pool-{number:02}" for number in range(50)]
SUBJECTS = [f"demo-{number}" for number in range(10)]
TO_2 = entry(*POOLS[:10], items=[image("nginx", "nginx:2.0")])
TWO_PODS = entry(*POOLS[10:15], items=[{"replicas": 2}])
BEFORE = [TO_2, TWO_PODS]
NOTE = patch("add", "/metadata/annotations/note", "a")
TO_3 = [image("nginx", "nginx:3.0")]


class Edit(NamedTuple):
    """An edit of the overrider of one subject.

    Attributes:
        name: A description.
        entries: The new entries, none to delete the overrider.
        outcome: The number of workloads by effect.
    """

    name: str
    entries: list[JSONObject]
    outcome: dict[str, int]


EDITS = {
    "demo-0": Edit("image in 20 pools", [entry(*POOLS[:20], items=TO_3), TWO_PODS], {"rolls": 20}),
    "demo-1": Edit("replicas in 5 pools", [TO_2, entry(*POOLS[10:15], items=[{"replicas": 3}])], {"scales": 5}),
    "demo-2": Edit("annotation in all pools", [*BEFORE, entry("*", patches=[NOTE])], {"metadata": 50}),
    "demo-3": Edit("order of the entries", [TWO_PODS, TO_2], {}),
    "demo-4": Edit("deletion", [], {"rolls": 10, "scales": 5}),
    "demo-5": Edit("image in all pools but one", [*BEFORE, entry("*", "-pool-07", items=TO_3)], {"rolls": 49}),
    "demo-6": Edit(
        "minReadySeconds in 3 pools",
        [*BEFORE, entry(*POOLS[:3], patches=[patch("add", "/spec/minReadySeconds", 3)])],
        {"spec": 3},
    ),
    "demo-7": Edit(
        "three entries more",
        [
            *BEFORE,
            entry(*POOLS[20:23], items=TO_3),
            entry(*POOLS[23:25], items=[{"replicas": 4}]),
            entry(*POOLS[25:29], patches=[NOTE]),
        ],
        {"rolls": 3, "scales": 2, "metadata": 4},
    ),
}
# The subjects demo-8 and demo-9 are not edited.


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return tmp_path / "records"


@pytest.fixture
def fleet(openyurt_plane: ControlPlane, records: Path, tmp_path: Path) -> Iterator[Scenario]:
    """Ten subjects of 50 pools with an overrider each, created beside a server that records."""
    arguments = ("--record", str(records))
    apply_node_pools(openyurt_plane.api(), V1Beta1(), **{pool: {} for pool in (*POOLS, BEIJING)})
    with (
        run_registered_server(openyurt_plane, tmp_path, *arguments, FLEETHOOK_LEASE_DURATION="3"),
        scenario(openyurt_plane.api(), release=V1_5, form=V1Beta1()) as made,
    ):
        made.start_sentinel()
        for name in SUBJECTS:
            made.override(*BEFORE, name=name)
            document = made.subject(name, {"containers": [{"name": "nginx", "image": "nginx:1.0"}]}, *POOLS)
            # A Deployment without pods costs little, and has ReplicaSets like others.
            document["spec"]["workload"]["workloadTemplate"]["deploymentTemplate"]["spec"]["replicas"] = 0
            made.api.create(made.form.path(made.namespace), document)
        settle(made, *SUBJECTS)
        yield made


def settle(fleet: Scenario, *overriders: str) -> None:
    """Wait until every controller has followed the stored objects."""
    for name in SUBJECTS:
        wait_for(lambda name=name: fleet.controller.has_settled(name), what=f"{name} has all workloads")
    fleet.settle(*overriders)


def make_overrider(fleet: Scenario, name: str, entries: list[JSONObject]) -> JSONObject:
    rule = overrider(
        *entries, name=name, subject={"apiVersion": fleet.form.version, "kind": "YurtAppSet", "name": name}
    )
    rule["metadata"]["namespace"] = fleet.namespace
    return rule


def predict_edit(
    fleet: Scenario, plane: ControlPlane, records: Path, directory: Path, name: str, edit: Edit
) -> tuple[Prediction, Replay]:
    """Return the predictions of both commands."""
    document = make_overrider(fleet, name, edit.entries)
    found = predict(plane, directory, document)
    # The sentinel and the first reviews of a new subject were decided before their objects were as they are now.
    known = run_replay(plane, records, directory, route=MUTATE).changes
    replay = run_replay(plane, records, directory, document, route=MUTATE, known=known)
    # `Scenario.override` also sends dry runs of a workload that does not exist.
    changes = [one for one in replay.changes if not one["subject"]["name"].startswith("probe-")]
    return found, replay._replace(changes=changes)


def make_edit(fleet: Scenario, name: str, edit: Edit) -> None:
    if edit.entries:
        fleet.override(*edit.entries, name=name)
    else:
        fleet.stop_overriding(name)
    settle(fleet, *([name] if edit.entries else []))


def find_effects(before: States, after: States) -> dict[str, str]:
    """Return the effects on changed workloads, by the generated part of their names."""
    effects = {f"{key[1].rpartition('-')[0]}-": observe(state, after[key]) for key, state in before.items()}
    return {prefix: effect for prefix, effect in effects.items() if effect != "unchanged"}


def count_replica_sets(fleet: Scenario) -> int:
    return sum(sum(fleet.rollouts.replica_sets(name).values()) for name in SUBJECTS)


def count_changed_generations(before: States, after: States) -> int:
    return sum(before[key].generation != after[key].generation for key in before)


@pytest.mark.timeout(3600)
def test_diff_and_replay_predict_the_edits_of_overriders_in_a_fleet(
    fleet: Scenario, openyurt_plane: ControlPlane, records: Path, tmp_path: Path
) -> None:
    wait_for_records(records, MUTATE, len(SUBJECTS) * len(POOLS))
    predictions = {
        name: predict_edit(fleet, openyurt_plane, records, tmp_path, name, edit) for name, edit in EDITS.items()
    }
    print("\nedit | diff | replay | outcome | new ReplicaSets | new generations")  # noqa: T201 - quoted in reports
    before, sets = read_states(fleet.api, fleet.namespace, *SUBJECTS), count_replica_sets(fleet)
    assert len(before) == 500
    for name, edit in EDITS.items():
        diff, replay = predictions[name]
        make_edit(fleet, name, edit)
        after, sets_after = read_states(fleet.api, fleet.namespace, *SUBJECTS), count_replica_sets(fleet)
        effects = find_effects(before, after)
        outcome, generations = Counter(effects.values()), count_changed_generations(before, after)
        replayed = f"{len(replay.changes)} of {replay.reviews} reviews: {dict(Counter(replay.effects().values()))}"
        print(f"{edit.name} | {diff.summary} | {replayed} | {dict(outcome)} | {sets_after - sets} | {generations}")  # noqa: T201 - as above
        assert find_mismatches(diff, before, after) == []
        assert replay.effects() == effects
        assert outcome == edit.outcome
        assert sets_after - sets == outcome["rolls"]
        before, sets = after, sets_after
