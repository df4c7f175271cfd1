"""The apiserver in memory answers as a real kube-apiserver does."""

from typing import Any

from tests.e2e.cluster import Api
from tests.fake_requests import FACTS, compare_answers
from tests.waiting import wait_for

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def test_a_real_apiserver_answers_as_expected(admin: Api) -> None:
    admin.create(DEFINITIONS, FACTS["definition"])
    wait_for(lambda: admin.call("GET", "/apis/example.com/v1/gadgets")[0] == 200)

    def send(method: str, path: str, body: Any, content_type: str, query: dict[str, str]) -> tuple[int, Any]:
        return admin.call(method, path, body, content_type=content_type, **query)[:2]

    assert compare_answers(send) == []
    admin.delete(f"{DEFINITIONS}/gadgets.example.com")
    for left in ("configmaps/a", "leases/l", "events/e", "events/f", "events/g", "hooks/h"):
        plural, _, name = left.partition("/")
        admin.delete(f"{FACTS['resources'][plural]}/{name}")
