"""Tests of the comparison of workloads before and after a conversion."""

from typing import Any

import pytest

from fleethook.cluster.store import key_of
from fleethook.engines.overrider.convert.pool_conversion import convert_pool
from fleethook.engines.overrider.convert.remarks import (
    Remark,
    Subject,
    check_pools,
    compare_pool,
    describe_entries,
    refusals,
)
from fleethook.engines.overrider.convert.subject_conversion import prepare_trial, with_tweaks
from fleethook.model.openyurt import YURT_APP_DAEMON
from tests.builders import (
    container,
    entry,
    image,
    node_pool,
    overrider,
    patch,
    pod_template,
    pool,
    store_of,
    tweak,
    yurt_app_daemon,
)
from tests.engines.overrider.convert.sources import placed, source_of, subject_of


def compare(*entries: dict[str, Any], tweaks: Any = None, config: Any = None) -> list[Remark]:
    source = source_of(*entries, config=config)
    conversion = convert_pool(source)
    if tweaks is None:
        tweaks = [{"pools": ["a"], "tweaks": part.tweaks} for part in conversion.parts]
    converted = with_tweaks(source.converted, tweaks)
    return list(
        compare_pool(conversion, converted, source=source, subject=subject_of(source), tweaks=range(len(tweaks)))
    )


def test_the_same_workload_has_no_remark() -> None:
    assert compare(entry("*", items=[image("nginx", "x:1")])) == []


def test_a_lost_value_is_an_error_of_its_step() -> None:
    (lost,) = compare(entry("*", items=[image("nginx", "x:1")]), tweaks=[tweak("a", replicas=2)])
    assert (lost.code, lost.key.group_kind.kind, lost.field, lost.pools) == (
        "lost", "YurtAppOverrider", "entries[0].items[0]", ("a",),
    )  # fmt: skip
    assert (lost.path, lost.before, lost.after) == (f"{SPEC}/containers/0/image", "x:1", "nginx:1.0")
    assert lost.text.startswith(f"{SPEC}/containers/0/image has the value 'nginx:1.0' instead of 'x:1'")


def test_a_lost_setting_of_a_pool_is_an_error_of_the_subject() -> None:
    kept = tweak("a", containerImages=[{"name": "nginx", "targetImage": "x:1"}])
    (lost,) = compare(entry("*", items=[image("nginx", "x:1")]), tweaks=[kept])
    assert (lost.key.group_kind.kind, lost.field, lost.path) == (
        "YurtAppSet",
        "spec.topology.pools[0]",
        "/spec/replicas",
    )
    assert lost.text == "/spec/replicas is lost; set it in the template or in a tweak"


def test_an_additional_value_is_not_removed() -> None:
    added = tweak("a", replicas=2, patches=[patch("add", f"{SPEC}/hostNetwork", True)])
    (lost,) = compare(tweaks=[added])
    assert lost.text.startswith(f"{SPEC}/hostNetwork is not removed: ")
    assert (lost.before, lost.after) == (None, True)


def test_long_values_are_shortened() -> None:
    (lost,) = compare(entry("*", items=[image("nginx", f"r.io/{'x' * 99}:1")]), tweaks=[tweak("a", replicas=2)])
    assert f"instead of 'r.io/{'x' * 54}…; " in lost.text


def test_tweaks_that_do_not_fit_are_an_error() -> None:
    (lost,) = compare(tweaks=[tweak("a", patches=[patch("remove", "/spec/absent")])])
    assert (lost.code, lost.path) == ("lost", "/")
    assert lost.text.startswith("the tweaks do not fit the template: ")


def test_pods_on_other_nodes_are_reported() -> None:
    assert [(one.level, one.code) for one in compare(config=pool("a"))] == [("warning", "confined")]
    other = {**placed("b"), "name": "a"}
    assert ("error", "elsewhere") in {(one.level, one.code) for one in compare(config=other)}


def test_a_tweak_that_the_webhook_refuses_is_an_error_of_its_pools() -> None:
    source = source_of()
    trial = prepare_trial(source.converted, "Deployment", ())
    tweaks = [tweak("a", replicas=2), tweak("a", patches=[patch("remove", "/spec/absent")])]
    (refused,) = refusals(tweaks, trial, subject_of(source))
    assert (refused.level, refused.code, refused.pools) == ("error", "refused", ("a",))


def test_node_pools_of_a_set_must_exist() -> None:
    subject = subject_of(source_of(), node_pool("b"))
    assert [(one.level, one.code, one.field, one.pools) for one in check_pools(subject, ["a", "b"])] == [
        ("error", "no-node-pool", "spec.topology.pools[0]", ("a",))
    ]
    assert [(one.level, one.code) for one in check_pools(subject_of(source_of()), ["a"])] == [
        ("warning", "no-node-pools")
    ]


def test_a_daemon_with_an_overrider_needs_node_pools() -> None:
    daemon = yurt_app_daemon()
    subject = Subject(key_of(daemon), daemon, overrider(entry("*")), "Deployment", store_of())
    assert subject.key.group_kind == YURT_APP_DAEMON
    assert [(one.level, one.code) for one in check_pools(subject, [])] == [("error", "no-node-pools")]
    assert list(check_pools(subject, ["a"])) == []
    assert list(check_pools(subject._replace(overrider=None), [])) == []


SPEC = "/spec/template/spec"
NOTE = "/spec/template/metadata/annotations"


def describe(*entries: Any, **spec: Any) -> list[tuple[str, str, str]]:
    source = source_of(*entries, **spec)
    found = describe_entries(subject_of(source), [convert_pool(source)], [])
    return [(one.level, one.code, one.field) for one in found]


@pytest.mark.parametrize(
    ("one", "remarks"),
    [
        (entry("a", items=[image("nginx", "x:1"), {"replicas": 5}]), []),
        (entry("*", patches=[patch("add", f"{SPEC}/hostNetwork", True)]), []),
        (entry("*", "-b", items=[{"replicas": 5}]), [("warning", "listed-pools", "entries[0].pools")]),
        (entry("a", items=[image("nginx", "x:{{nodepool}}")]), [("note", "listed-pools", "entries[0].items[0]")]),
        (entry("*", items=[image("nginx", "x:{{nodepool}}")]), [("warning", "listed-pools", "entries[0].items[0]")]),
        (entry("*", items=[{"labels": {"a": "b"}}]), [("note", "patch", "entries[0].items[0]")]),
        (
            entry("*", patches=[patch("add", f"{NOTE}/{{{{nodepool}}}}", "x")]),
            [("warning", "listed-pools", "entries[0].patches[0].path")],
        ),
        (
            entry("*", patches=[patch("replace", f"{SPEC}/containers/[name=nginx]/image", "x:1")]),
            [("note", "index", "entries[0].patches[0].path")],
        ),
        (entry("b", items=[{"replicas": 5}]), [("note", "unused", "entries[0]")]),
    ],
)
def test_another_form_is_reported_at_its_path(one: dict[str, Any], remarks: list[tuple[str, str, str]]) -> None:
    assert describe(one) == remarks


def test_an_item_after_a_patch_of_the_same_member_is_a_note() -> None:
    patched = patch("replace", f"{SPEC}/containers/0/image", "x:0")
    assert describe(entry("*", patches=[patched]), entry("*", items=[image("nginx", "x:1")])) == [
        ("note", "patch", "entries[1].items[0]")
    ]


def test_members_that_are_set_to_null_are_a_note_of_the_last_step() -> None:
    template = pod_template(containers=[container(args=["a"])])
    replaced = patch("replace", f"{SPEC}/containers/0", container(image="x:1"))
    assert describe(entry("*", patches=[replaced]), template=template) == [("note", "unset", "entries[0].patches[0]")]


def test_a_subject_without_overrider_has_no_remark() -> None:
    assert describe() == []
