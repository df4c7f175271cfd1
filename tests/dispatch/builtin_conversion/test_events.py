"""Events are converted between v1 and events.k8s.io/v1."""

from app.dispatch.builtin_conversion.events import convert_event


def test_reporting_fields_are_omitted_in_the_new_version_and_kept_in_the_old_one() -> None:
    old = {"apiVersion": "v1", "kind": "Event", "message": "m", "reportingComponent": "", "reportingInstance": "i"}
    new = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "m", "reportingInstance": "i"}
    assert convert_event(old, "events.k8s.io/v1") == new
    assert convert_event(new, "v1") == old


def test_a_series_without_a_count_has_zero_in_the_new_version() -> None:
    new = convert_event({"apiVersion": "v1", "kind": "Event", "series": {"state": "x"}}, "events.k8s.io/v1")
    assert new["series"] == {"count": 0, "state": "x"}
    assert convert_event(new, "v1")["series"] == {"state": "x"}
