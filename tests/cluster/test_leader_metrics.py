from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from fleethook.cluster.leader_metrics import ControllerCounts, ControllerMetrics, LeaderMetrics, LeaderState


def samples(registry: CollectorRegistry) -> list[str]:
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_gauges_show_the_state_at_the_time_of_a_scrape() -> None:
    registry, state = CollectorRegistry(), [LeaderState(leading=False)]
    registry.register(LeaderMetrics(lambda: state[0]))
    assert samples(registry) == ["fleethook_leader 0.0", "fleethook_controller_queue_length 0.0"]
    state[0] = LeaderState(leading=True, queued=7)
    assert samples(registry) == ["fleethook_leader 1.0", "fleethook_controller_queue_length 7.0"]


def test_counters_show_each_count_under_its_own_name() -> None:
    registry = CollectorRegistry()
    registry.register(ControllerMetrics(lambda: ControllerCounts(reconciled=1, touched=2, failed=3)))
    assert samples(registry) == [
        "fleethook_controller_reconciled_total 1.0",
        "fleethook_controller_touched_total 2.0",
        "fleethook_controller_failed_total 3.0",
    ]
