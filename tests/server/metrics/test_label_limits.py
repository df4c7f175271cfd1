"""The number of label values that tenants choose is limited."""

from fleethook.server.metrics.label_limits import (
    MAX_CLUSTERS,
    MAX_WEBHOOKS_PER_CLUSTER,
    OTHER,
    WebhookNames,
    group_code,
)


def test_many_webhooks_of_one_cluster_leave_names_for_another() -> None:
    names = WebhookNames()
    made = {names.add_label("ws2", f"w{number}") for number in range(10_000)}
    assert len(made) == MAX_WEBHOOKS_PER_CLUSTER + 1
    assert ("ws2", OTHER) in made
    assert names.add_label("ws3", "w") == ("ws3", "w")
    assert names.add_label("ws2", "w0") == ("ws2", "w0")


def test_clusters_beyond_the_limit_share_one_label_value() -> None:
    names = WebhookNames()
    made = {names.add_label(f"ws{number}", "w") for number in range(10_000)}
    assert len(made) == MAX_CLUSTERS + 1
    assert (OTHER, OTHER) in made
    assert names.add_label("ws0", "w") == ("ws0", "w")


def test_unusual_codes_share_one_label_value_per_class() -> None:
    assert [group_code(code) for code in (200, 404, 418, 599, 500, 0)] == ["200", "404", "4xx", "5xx", "500", "0"]
