"""Edits of YurtAppSets and YurtAppDaemons, validated against their overriders."""

from typing import Any

from fleethook.model.admission import Response
from tests.builders import (
    container,
    entry,
    image,
    overrider,
    patch,
    pod_template,
    pool,
    request,
    store_of,
    validate_subject,
    yurt_app_set,
)

PRIORITY = [patch("replace", "/spec/template/spec/priority", 5)]
RULE = overrider(entry("hangzhou", patches=PRIORITY))
FITS = yurt_app_set(template=pod_template(priority=1))
MISFIT = yurt_app_set()
TEXT = (
    "YurtAppOverrider default/demo1: entries[0].patches[0]: node pool hangzhou: "
    "replace /spec/template/spec/priority: member 'priority' does not exist"
)


def validate(document: Any, *objects: dict[str, Any], kind: dict[str, str] | None = None, **fields: Any) -> Response:
    group_kind = {"group": "apps.openyurt.io", "version": "v1alpha1", "kind": document["kind"], **(kind or {})}
    made = request(document, **fields)
    made.kind = type(made.kind)(**group_kind)
    return validate_subject(made, store=store_of(*objects))


def edit(old: Any, new: Any, *objects: dict[str, Any], **fields: Any) -> Response:
    return validate(new, *objects, operation="UPDATE", old=old, **fields)


def test_an_edit_that_breaks_an_entry_is_a_warning_with_overrider_entry_and_pool() -> None:
    assert edit(FITS, MISFIT, RULE) == Response(allowed=True, warnings=(TEXT,))


def test_a_subject_whose_overrider_was_broken_before_can_be_edited() -> None:
    other = yurt_app_set(paused=True)
    assert edit(MISFIT, other, RULE) == Response(allowed=True, warnings=(TEXT,))
    one_more = yurt_app_set(pools=[pool("hangzhou"), pool("jinan")])
    both = overrider(entry("*", patches=PRIORITY))
    assert edit(MISFIT, one_more, both).allowed


def test_an_edit_that_fits_and_a_subject_without_overrider_are_admitted_silently() -> None:
    other = overrider(entry("*", patches=PRIORITY), subject={"kind": "YurtAppSet", "name": "other"})
    assert edit(MISFIT, FITS, RULE) == Response(allowed=True)
    assert edit(FITS, MISFIT, other) == Response(allowed=True)
    assert edit(FITS, MISFIT) == Response(allowed=True)


def test_a_pool_that_goes_away_is_a_warning_once() -> None:
    rule = overrider(entry("hangzhou", "beijing", items=[image("nginx", "nginx:2")]))
    less = yurt_app_set(pools=[pool("hangzhou")])
    answer = edit(yurt_app_set(), less, rule)
    assert answer.warnings == (
        "YurtAppOverrider default/demo1: entries[0].pools[1]: YurtAppSet demo has no node pool 'beijing'",
    )
    assert edit(less, yurt_app_set(pools=[pool("hangzhou")], paused=True), rule) == Response(allowed=True)


def test_a_container_that_is_renamed_is_a_warning() -> None:
    rule = overrider(entry("*", items=[image("nginx", "nginx:2")]))
    renamed = yurt_app_set(template=pod_template(containers=[container("web")]))
    (warning,) = edit(yurt_app_set(), renamed, rule).warnings
    assert warning == (
        "YurtAppOverrider default/demo1: entries[0].items[0]: no container is named 'nginx'; there are web "
        "(node pools hangzhou, beijing)"
    )


def test_the_edit_is_judged_and_not_the_stored_subject() -> None:
    assert edit(FITS, MISFIT, FITS, RULE).warnings == (TEXT,)


def test_metadata_status_deletion_and_other_versions_are_not_checked() -> None:
    labelled = {**MISFIT, "metadata": {**MISFIT["metadata"], "labels": {"a": "b"}}}
    deleting = {**MISFIT, "metadata": {**MISFIT["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    for answer in (
        edit(MISFIT, labelled, RULE),
        edit(FITS, deleting, RULE),
        edit(FITS, MISFIT, RULE, subResource="status"),
        edit(FITS, MISFIT, RULE, kind={"version": "v1beta2"}),
    ):
        assert answer == Response(allowed=True)
