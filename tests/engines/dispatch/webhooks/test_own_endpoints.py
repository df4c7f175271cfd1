"""Webhooks that are this server's own dispatch routes are skipped."""

import json
import time
from typing import Any

import pytest

from fleethook.engines.dispatch.call.call import Deadline
from fleethook.engines.dispatch.explain import explain
from fleethook.engines.dispatch.webhooks.own_endpoints import OwnEndpoints, list_own_addresses
from fleethook.engines.dispatch.webhooks.webhook import compile_webhooks
from tests.engines.dispatch.builders import configuration, request_of, review, store_of, webhook
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow, hook
from tests.waiting import NET

OWN = OwnEndpoints(
    lambda: list_own_addresses(
        service="fleet/hook:8443",
        webhook_url="https://hooks.example.org/fleethook/",
        names=["localhost", "127.0.0.1", "::1"],
        port=9443,
    )
)


def find_reason(client_config: dict[str, Any], cluster: str = "ws1") -> str:
    (compiled,) = compile_webhooks(
        "validating", cluster, configuration(cluster, "validating", webhook(clientConfig=client_config))
    )
    return OWN.find_reason(compiled)


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost:9443/dispatch/validate", "https://LocalHost.:9443/dispatch/mutate",
        "https://127.0.0.1:9443/clusters/ws3/mutate", "https://[::1]:9443/clusters/root:org:ws/validate",
        "https://hook.fleet.svc:8443/dispatch/validate", "https://hook.fleet.svc.cluster.local:8443/dispatch/validate",
        "https://hooks.example.org/fleethook/dispatch/validate", "https://hooks.example.org:443/fleethook/clusters/a/mutate",
        "https://localhost:9443/x/../dispatch/validate", "https://localhost:9443/dispatch/validat%65",
    ],
)  # fmt: skip
def test_own_dispatch_routes_are_recognized_in_any_spelling(url: str) -> None:
    assert find_reason({"url": url}) == (
        f"{url} is a dispatch route of this fleethook, which would call the same webhooks again: remove the webhook from "
        "the configuration hooks of logical cluster ws1"
    )


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost:9444/dispatch/validate", "https://other.example.org:9443/dispatch/validate",
        "https://hooks.example.org/dispatch/validate", "https://hooks.example.org/fleethookx/dispatch/validate",
        "https://localhost:9443/mutate-apps-v1-deployment", "https://localhost:9443/clusters/validate",
        "https://localhost:9443/clusters/ws3/xmutate", "https://localhost:9443/clusters/ws3/explain",
        "https://localhost:9443/dispatch/validate/", "https://[/validate",
    ],
)  # fmt: skip
def test_other_webhooks_are_called(url: str) -> None:
    assert find_reason({"url": url}) == ""


def test_the_own_service_is_recognized_in_a_plain_cluster() -> None:
    service = {"name": "hook", "namespace": "fleet", "path": "/dispatch/validate"}
    assert find_reason({"service": {**service, "port": 8443}}, cluster="").endswith(
        "the configuration hooks of this cluster"
    )
    assert find_reason({"service": service}, cluster="") == ""


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("phase", ["mutating", "validating"])
async def test_own_routes_are_skipped_with_a_warning(front: Front, server: Webhooks, phase: Any, policy: str) -> None:
    server.answers.update({"/dispatch/validate": allow, "/w": allow})
    own = OwnEndpoints(
        lambda: list_own_addresses(service=None, webhook_url=None, names=["127.0.0.1"], port=server.port)
    )
    made = configuration(
        "ws1", phase, hook(server, "/dispatch/validate", "own.example.org", failurePolicy=policy), hook(server, "/w")
    )
    store = store_of(made)
    response = (await front.dispatch(store, review(), cluster="ws1", phase=phase, own=own)).response
    assert response.allowed
    assert server.paths == ["/w"]
    (warning,) = response.warnings
    assert warning.startswith('admission webhook "own.example.org" was not called: https://127.0.0.1:')
    assert warning.endswith("remove the webhook from the configuration hooks of logical cluster ws1")
    annotations = response.audit_annotations
    prefix = "mutation" if phase == "mutating" else "validating"
    assert annotations is not None
    noted = json.loads(annotations[f"own-endpoint.{prefix}.webhook.admission.k8s.io/index_0"])
    assert noted == {"configuration": "hooks", "webhook": "own.example.org"}

    dispatcher = front.dispatcher(store, own=own)
    found = await explain(dispatcher, request_of(review()), cluster="ws1", deadline=Deadline(time.monotonic() + NET))
    explained = found.mutating if phase == "mutating" else found.validating
    assert [(one.decision, one.stage) for one in explained] == [("skip", "ownEndpoint"), ("call", "")]
    assert explained[0].reason in warning


async def test_own_routes_that_do_not_match_give_no_warning(front: Front, server: Webhooks) -> None:
    own = OwnEndpoints(
        lambda: list_own_addresses(service=None, webhook_url=None, names=["127.0.0.1"], port=server.port)
    )
    selecting = hook(server, "/dispatch/validate", objectSelector={"matchLabels": {"a": "b"}})
    store = store_of(configuration("ws1", "validating", selecting))
    assert (await front.dispatch(store, review(), cluster="ws1", own=own)).response.warnings == ()
