"""Tests of the subjects that have an overrider, and of the calls when they change."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.registration.webhook_configurations import CONFIGURATION_NAME
from fleethook.cluster.store import key_of
from fleethook.engines.overrider.subject.bound_subjects import (
    bound_subjects,
    call_on_change,
    lists_without_leader,
    runs_selection,
)
from fleethook.engines.overrider.subject.match_condition_texts import SubjectName
from fleethook.settings import Settings
from tests.builders import API, entry, overrider, store_of, yurt_app_set

DEMO = SubjectName("default", "YurtAppSet", "demo")
OTHER = {"apiVersion": API, "kind": "YurtAppSet", "name": "other"}
RULE = overrider(entry("*"), uid="u-7")


def configuration(name: str = CONFIGURATION_NAME, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        **fields,
    }


def test_subjects_of_all_clusters_are_found() -> None:
    elsewhere = overrider(entry("*"), name="b", subject=OTHER, uid="u-8", annotations={"kcp.io/cluster": "c"})
    broken = {**overrider(entry("*"), name="c"), "subject": "demo"}
    store = store_of(RULE, elsewhere, broken)
    other = DEMO._replace(name="other")
    assert bound_subjects(store) == {DEMO, other}


def test_a_change_of_a_subject_or_of_the_configuration_is_a_call() -> None:
    store = store_of(RULE, yurt_app_set())
    calls: list[int] = []
    end = call_on_change(store, lambda: calls.append(1))

    def count(document: dict[str, Any]) -> int:
        calls.clear()
        store.put(document)
        return len(calls)

    assert count({**RULE, "entries": []}) == 0
    assert count({**RULE, "subject": OTHER}) == 1
    assert count(yurt_app_set(replicas=3)) == 0
    assert count(configuration("other")) == 0
    assert count(configuration()) == 1
    store.remove(key_of(RULE))
    assert len(calls) == 2
    end()
    assert count(RULE) == 0


KUBECONFIG: dict[str, Any] = {"kubeconfig": Path("k")}
INSTALLED: dict[str, Any] = {**KUBECONFIG, "service": "fleet/fleethook"}


@pytest.mark.parametrize(
    ("given", "leader", "replicas"),
    [
        ({**INSTALLED, "registration": "ca-bundle"}, True, False),
        ({**INSTALLED, "registration": "all"}, True, False),
        ({**INSTALLED, "controller": True}, True, False),
        ({**INSTALLED, "registration": "ca-bundle", "controller": False}, False, True),
        ({**INSTALLED, "controller": False}, False, True),
        ({**INSTALLED, "controller": False, "engines": {"dispatch"}}, False, False),
        ({**INSTALLED, "controller": True, "engines": {"dispatch"}}, False, False),
        ({**INSTALLED, "controller": True, "kcp": True}, False, False),
        ({**INSTALLED, "controller": False, "kcp": True}, False, False),
        # A server without an address of its own writes nothing.
        (KUBECONFIG, False, False),
        ({**KUBECONFIG, "controller": False}, False, False),
        ({"manifests": Path()}, False, False),
    ],
)
def test_the_leader_keeps_the_selection_and_without_a_controller_each_replica_does(
    given: dict[str, Any], *, leader: bool, replicas: bool
) -> None:
    settings = Settings(**given)
    assert (runs_selection(settings), lists_without_leader(settings)) == (leader, replicas)
