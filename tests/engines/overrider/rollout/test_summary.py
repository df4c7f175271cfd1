"""The totals of predicted effects, in words."""

import pytest

from fleethook.engines.overrider.rollout.effect import Effect
from fleethook.engines.overrider.rollout.summary import Totals, sum_effects

ONE_ROLL, SCALE, NO_CHANGE = Effect("rolls", 3), Effect("scales", 2), Effect("unchanged")


@pytest.mark.parametrize(
    ("effects", "text"),
    [
        ([], "changes none of 0 workloads"),
        ([NO_CHANGE], "changes none of 1 workload"),
        ([ONE_ROLL, NO_CHANGE, NO_CHANGE], "rolls 1 of 3 workloads, 3 pods"),
        ([ONE_ROLL, ONE_ROLL, SCALE], "rolls 2 of 3 workloads, 6 pods; scales 1 workload, 2 pods"),
        ([SCALE, NO_CHANGE], "scales 1 of 2 workloads, 2 pods"),
        ([Effect("created", 1), NO_CHANGE], "creates 1 workload, 1 pod"),
        ([ONE_ROLL, Effect("created", 4), Effect("deleted", 2)], "rolls 1 of 2 workloads, 3 pods; creates 1 workload, 4 pods; deletes 1 workload, 2 pods"),
        ([Effect("metadata"), Effect("spec"), NO_CHANGE], "changes other fields of 1 of 3 workloads; changes metadata of 1 workload"),
        ([Effect("error"), NO_CHANGE], "cannot render 1 of 2 workloads"),
    ],
)  # fmt: skip
def test_the_headline_names_all_effects(effects: list[Effect], text: str) -> None:
    assert sum_effects(effects).headline == text


@pytest.mark.parametrize(
    ("effects", "changes"),
    [([NO_CHANGE], False), ([NO_CHANGE, Effect("metadata")], True), ([Effect("error")], True), ([], False)],
)
def test_errors_and_metadata_are_changes(effects: list[Effect], changes: bool) -> None:
    assert sum_effects(effects).changes is changes


def test_created_workloads_are_not_part_of_the_total() -> None:
    assert sum_effects([Effect("created", 1), NO_CHANGE]) == Totals(
        1, {"created": 1, "unchanged": 1}, {"created": 1, "unchanged": 0}
    )
