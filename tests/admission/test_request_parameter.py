from typing import Any

from fleethook.admission import Denied, Request, mutate, validate
from tests.admission.test_rule_call import POD


def test_the_object_of_a_deletion_is_the_deleted_one() -> None:
    @validate("v1", "Pod", on="DELETE")
    def keeps(pod: Any, old: Any, request: Request) -> None:
        assert pod == old == request.object
        raise Denied(f"{pod.metadata.name} stays")

    assert keeps.review(POD, operation="DELETE").message == "a stays"


def test_changes_of_the_request_are_a_patch_too() -> None:
    @mutate("v1", "Pod")
    def changes(request: Request) -> None:
        request.object.metadata.labels.team = "web"

    assert changes.review(POD).patch == [{"op": "add", "path": "/metadata/labels/team", "value": "web"}]
