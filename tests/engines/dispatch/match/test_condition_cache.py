from fleethook.cel import Program, compile_condition
from fleethook.engines.dispatch.match.condition_cache import ProgramCache

SIZE = compile_condition("object.a == 0").size


def program(number: int) -> Program:
    return compile_condition(f"object.a == {number}")


def fill(cache: ProgramCache, cluster: str, count: int) -> None:
    for number in range(count):
        if cache.get(cluster, f"object.a == {number}") is None:
            cache.put(cluster, program(number))


def hits(cache: ProgramCache, cluster: str, count: int) -> int:
    return sum(cache.get(cluster, f"object.a == {number}") is not None for number in range(count))


def test_clusters_do_not_share_programs() -> None:
    cache = ProgramCache()
    kept = program(1)
    cache.put("ws2", kept)

    assert cache.get("ws2", kept.expression) is kept
    assert cache.get("ws3", kept.expression) is None


def test_a_cluster_with_too_many_conditions_keeps_its_cached_ones() -> None:
    cache = ProgramCache(100 * SIZE)
    for _ in range(3):
        fill(cache, "ws2", 300)

    assert cache.nodes == 100 * SIZE
    assert hits(cache, "ws2", 300) == 100


def test_stale_programs_make_room() -> None:
    cache = ProgramCache(10 * SIZE)
    fill(cache, "ws2", 10)
    for _ in range(200):
        cache.get("ws2", "object.a == 0")
    cache.put("ws2", program(11))

    assert cache.get("ws2", program(11).expression) is not None


def test_another_cluster_gets_its_fair_share_of_a_full_cache() -> None:
    cache = ProgramCache(100 * SIZE)
    fill(cache, "ws2", 300)
    fill(cache, "ws3", 40)

    assert hits(cache, "ws3", 40) == 40
    assert hits(cache, "ws2", 300) == 60
