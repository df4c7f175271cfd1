"""Compiling the overriders of a store."""

from fleethook.engines.overrider.policies.stored import compile_all, compile_stored
from tests.builders import entry, image, node_pool, overrider, store_of, yurt_app_daemon, yurt_app_set

RULE = overrider(entry("*", items=[image("nginx", "nginx:2")]))


def test_the_subject_and_its_pools_come_from_the_store() -> None:
    compilation = compile_stored(RULE, store=store_of(RULE, yurt_app_set()))
    assert '"beijing"' in compilation.objects[0]["spec"]["variables"][0]["expression"]


def test_the_pools_of_a_daemon_are_node_pools() -> None:
    rule = overrider(entry("*", items=[image("nginx", "nginx:2")]), subject={"kind": "YurtAppDaemon", "name": "agent"})
    store = store_of(rule, yurt_app_daemon(), node_pool("shanghai", {"region": "east"}))
    assert '"shanghai"' in compile_stored(rule, store=store).objects[0]["spec"]["variables"][0]["expression"]


def test_an_overrider_without_a_subject_is_refused() -> None:
    (refusal,) = compile_stored(RULE, store=store_of(RULE)).refusals
    assert (refusal.entry, "not known" in refusal.reason) == ("subject", True)


def test_only_the_overrider_in_effect_compiles() -> None:
    second = overrider(RULE["entries"][0], name="demo2")
    found = [*compile_all(store_of(second, RULE, yurt_app_set()), [""])]
    assert [(one.key.name, one.compilation.compiles) for one in found] == [("demo1", True), ("demo2", False)]
    assert "demo1" in found[1].compilation.refusals[0].reason
