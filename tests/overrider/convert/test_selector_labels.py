"""Tests of labels of the selector that pods lack."""

from typing import Any

from app.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from app.overrider.convert.selector_labels import complete_labels
from app.store import ObjectKey
from tests.builders import container, yurt_app_daemon, yurt_app_set

SET = ObjectKey("", YURT_APP_SET, "default", "demo")
OWN = {"metadata": {"labels": {"own": "1"}}, "spec": {"containers": [container()]}}


def labels_of(subject: dict[str, Any]) -> Any:
    template = subject["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]
    return template.get("metadata", {}).get("labels")


def test_pods_with_all_labels_stay_as_they_are() -> None:
    subject = yurt_app_set()
    completed, remarks = complete_labels(SET, subject, kind="Deployment")
    assert completed is subject
    assert remarks == []


def test_pods_get_each_missing_label_with_a_remark() -> None:
    subject = yurt_app_set(template=OWN)
    subject["spec"]["selector"]["matchLabels"] = {"app": "demo", "tier": "edge", "own": "2"}
    completed, remarks = complete_labels(SET, subject, kind="Deployment")
    assert labels_of(completed) == {"own": "1", "app": "demo", "tier": "edge"}
    assert labels_of(subject) == {"own": "1"}
    assert [(one.level, one.code, one.path.rpartition("/")[2]) for one in remarks] == [
        ("warning", "label-added", "app"),
        ("warning", "label-added", "tier"),
    ]
    assert remarks[1].text == "the pods get the label tier=edge of the selector, which kube-apiserver requires"


def test_the_selector_of_a_daemons_template_comes_before_that_of_the_daemon() -> None:
    daemon = yurt_app_daemon(template=OWN, selector={"matchLabels": {"of": "template"}})
    key = ObjectKey("", YURT_APP_DAEMON, "default", "agent")
    assert labels_of(complete_labels(key, daemon, kind="Deployment")[0]) == {"own": "1", "of": "template"}
    without = yurt_app_daemon(template=OWN, selector=None)
    assert labels_of(complete_labels(key, without, kind="Deployment")[0]) == {"own": "1", "app": "demo"}


def test_expressions_of_the_selector_are_dropped_with_a_warning() -> None:
    subject = yurt_app_set()
    subject["spec"]["selector"]["matchExpressions"] = [{"key": "a", "operator": "Exists"}]
    completed, (remark,) = complete_labels(SET, subject, kind="Deployment")
    assert completed is subject
    assert remark[:4] == ("warning", "selector", SET, "spec.selector.matchExpressions")
