import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleethook.admission.rule_in_tests import build_request
from fleethook.cluster.api_errors import APIError
from fleethook.cluster.followed_objects import Cluster, Followed
from fleethook.cluster.registration.consumer_bindings_and_webhooks import CONFIGURATIONS
from fleethook.cluster.store import Store
from fleethook.engines.rules.consumer_workspaces import Consumers, list_resources
from fleethook.model.admission import AdmissionRequest
from fleethook.server.protocol.bodies import RequestError
from fleethook.settings import Settings
from tests.kcp_export import make_binding

CONFIGURATION = {"apiVersion": "v1", "kind": CONFIGURATIONS[0].kind, "metadata": {"name": "fleethook-guard"}}


class Requests:
    """The requests of a server, each with the next answer."""

    def __init__(self, *answers: Exception | None) -> None:
        self.made: list[tuple[str, str]] = []
        self._answers = list(answers)

    async def send(self, method: str, path: str, **_: Any) -> bytes:
        self.made.append((method, path))
        if self._answers and (error := self._answers.pop(0)):
            raise error
        return b"{}"


def make_consumers(*answers: Exception | None) -> tuple[Consumers, Store, Requests]:
    store, requests = Store(), Requests(*answers)
    settings = Settings(kubeconfig=Path("k"), kcp_export="guard")
    cluster = Cluster(settings, store, [Followed(list_resources("guard"))])
    cluster.connection.request = requests.send  # type: ignore[method-assign]
    cluster.connection.provider = "p"  # type: ignore[attr-defined]
    made = Consumers(cluster, store, export="guard", namespace="n")
    made._key, made.problem = b"k", ""
    return made, store, requests


def build(_: str) -> list[Any]:
    webhook = {"name": "w", "clientConfig": {"url": "https://h"}}
    return [{**CONFIGURATION, "webhooks": [webhook]}]


def make_request(cluster: str) -> AdmissionRequest:
    metadata = {"name": "a", "annotations": {"kcp.io/cluster": cluster}}
    return build_request({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, None, operation="CREATE")


@pytest.mark.parametrize(("caller", "cluster"), [("c", "c"), ("p", "d")])
def test_only_the_workspace_of_the_export_speaks_for_others(caller: str, cluster: str) -> None:
    consumers, store, _ = make_consumers()
    store.put(make_binding(cluster))
    lookup = consumers.make_lookup(caller, make_request("d"))
    assert (lookup.cluster, lookup.workspace) == (cluster, f"root:{cluster}")


def test_without_the_key_no_review_is_answered() -> None:
    consumers, _, _ = make_consumers()
    consumers._key, consumers.problem = b"", "unread"
    with pytest.raises(RequestError) as raised:
        consumers.check_caller("/rules/validate/a/c/t")
    assert raised.value.code == 503
    assert not consumers.check().ok


async def test_somebody_who_edits_in_a_loop_causes_one_write_a_second() -> None:
    consumers, store, requests = make_consumers()
    store.put(make_binding("c"))
    outcomes = [await consumers._cover("c", build, b"ca") for _ in range(20)]
    assert outcomes[0] is True
    assert all(isinstance(one, tuple) for one in outcomes[1:])
    assert len(requests.made) == 1


async def test_a_workspace_that_refuses_a_write_is_named_until_it_takes_it() -> None:
    consumers, store, _ = make_consumers(APIError(403, "Forbidden", "a quota"), None)
    assert consumers.check().detail.startswith("no workspace binds the APIExport ")
    store.put(make_binding("c"))
    assert await consumers._cover("c", build, b"ca") is False
    assert consumers.check().detail == "1 of 1 not covered: root:c (c): 403 Forbidden: a quota"
    consumers._written.clear()
    assert await consumers._cover("c", build, b"ca") is True
    assert "the leader has not written" in consumers.check().detail


async def test_the_key_is_shared(tmp_path: Path) -> None:
    """A replica that loses the race of creation reads the key of the other one."""
    del tmp_path
    taken = APIError(409, "AlreadyExists", "there")
    consumers, _, requests = make_consumers(APIError(404, "NotFound", "none"), taken, None)
    consumers._key, consumers.problem = b"", "unread"
    secret = b'{"data": {"key": "b3RoZXI="}}'
    send = requests.send

    async def answer(method: str, path: str, **rest: Any) -> bytes:
        await send(method, path, **rest)
        return secret

    cast("SimpleNamespace", consumers._connection).request = answer
    await asyncio.wait_for(consumers.read_key(), 30)
    assert consumers._key == b"other"
    assert [method for method, _ in requests.made] == ["GET", "POST", "GET"]
