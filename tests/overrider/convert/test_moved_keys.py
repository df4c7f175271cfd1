"""Tests of keys that move from the template to tweaks."""

from typing import Any

from app.model.openyurt import YURT_APP_SET
from app.overrider.convert.moved_keys import move_removed_keys
from app.overrider.convert.remark import Remark
from app.store import ObjectKey
from tests.builders import pod_template, yurt_app_set_v1beta1

KEY = ObjectKey("", YURT_APP_SET, "default", "demo")
DISK = "/spec/template/spec/nodeSelector/disk"


def lose(path: str, after: Any, before: Any = None, code: str = "lost") -> Remark:
    return Remark("error", code, KEY, "entries[0].patches[0]", "kept", ("a",), path, before, after)


def move(*remarks: Remark, **selector: str) -> tuple[dict[str, Any], list[Remark]] | None:
    """Return the template's pod spec after the move, and the remarks."""
    subject = yurt_app_set_v1beta1(template=pod_template(nodeSelector={"disk": "ssd", **selector}))
    made = move_removed_keys(subject, remarks, kind="Deployment")
    if made is None:
        return None
    document, moved = made
    template = document["spec"]["workload"]["workloadTemplate"]["deploymentTemplate"]
    return template["spec"]["template"]["spec"], moved


def test_a_lost_key_leaves_the_template() -> None:
    moved = move(lose(DISK, "ssd"), zone="east")
    assert moved is not None
    assert moved[0]["nodeSelector"] == {"zone": "east"}
    (remark,) = moved[1]
    assert remark[:4] == ("note", "moved", KEY, "entries[0].patches[0]")
    assert (remark.text, remark.pools) == (
        f"{DISK} moves from the template to tweaks, so that patches can remove it", ("a",),
    )  # fmt: skip


def test_an_object_that_becomes_empty_leaves_it_too() -> None:
    moved = move(lose(DISK, "ssd"))
    assert moved is not None
    assert "nodeSelector" not in moved[0]
    assert len(moved[0]["containers"]) == 1


def test_a_key_of_a_list_element_moves() -> None:
    moved = move(lose("/spec/template/spec/containers/0/image", "nginx:1.0"))
    assert moved is not None
    assert moved[0]["containers"] == [{"name": "nginx"}]


def test_other_differences_move_nothing() -> None:
    others = [
        lose(DISK, "hdd"),
        lose(DISK, "ssd", before="hdd"),
        lose(DISK, "ssd", code="elsewhere"),
        lose("/spec/template/spec/nodeSelector/zone", "east"),
        lose("/spec/template/spec/containers/7", "x"),
        lose("", {}),
    ]
    assert move(*others) is None
