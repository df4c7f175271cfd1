"""Callers that may dispatch and explain reviews, with real tokens and RBAC of a real apiserver."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.dispatch_callers import ROUTES, Caller
from tests.e2e.fleet import NAMESPACE, WEBHOOKS, is_ready, service_account
from tests.engines.dispatch.builders import configuration, review, webhook
from tests.other_constants import constants
from tests.serving import Server, serving
from tests.waiting import wait_for

CLUSTER = "access-ws3"


@pytest.fixture(scope="module")
def objects(admin: Api) -> Iterator[None]:
    """A logical cluster with a webhook, so that the server knows the cluster."""
    path = f"{WEBHOOKS}/validatingwebhookconfigurations"
    admin.create(path, configuration(CLUSTER, "validating", webhook(failurePolicy="Ignore"), name=CLUSTER))
    yield
    admin.delete(f"{path}/{CLUSTER}")


@pytest.fixture(scope="module")
def server(
    plane: ControlPlane, kcp_kinds: None, objects: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("access")
    kubeconfig = service_account(plane)
    # The server must notice a revoked right within the test.
    environment = {**constants(allowed=1, refused=0.2), "FLEETHOOK_ENGINES": '["dispatch"]'}
    with serving(directory, "--kubeconfig", str(kubeconfig), manifests=None, **environment) as running:
        wait_for(lambda: is_ready(running), what="the server is ready")
        yield running


def ask(server: Server, token: str | None, *, cluster: str = CLUSTER, route: str = "explain") -> tuple[int, Any]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    body = json.dumps(review()).encode()
    status, answer = server.request("POST", f"/clusters/{cluster}/{route}", body, **headers)
    return status, json.loads(answer)


def test_rbac_decides_by_route_and_cluster(server: Server, admin: Api, namespace: str) -> None:
    caller = Caller(admin, namespace)
    token = caller.token()
    assert {ask(server, token, route=route)[0] for route in ROUTES} == {403}
    caller.permit(CLUSTER, routes=["explain"])
    wait_for(lambda: ask(server, token)[0] == 200, what="the right is seen")
    assert ask(server, token)[1]["cluster"] == CLUSTER
    for route in ("mutate", "validate"):
        status, refused = ask(server, token, route=route)
        assert (status, refused["reason"]) == (403, "Forbidden")
        assert refused["message"] == (
            f"user '{caller.user}' may not {route} in logical cluster '{CLUSTER}': this needs the verb create on "
            f"clusters/{route} of fleethook.io with the name '{CLUSTER}'"
        )
    assert ask(server, token, cluster="access-ws2")[0] == 403
    caller.permit(CLUSTER)
    for route in ("mutate", "validate"):
        answer = wait_for(lambda route=route: _response(server, token, route), what="the right is seen")
        assert answer["allowed"] is True


def _response(server: Server, token: str, route: str) -> Any:
    status, answer = ask(server, token, route=route)
    return answer["response"] if status == 200 else None


def test_a_revoked_right_ends(server: Server, admin: Api, namespace: str) -> None:
    caller = Caller(admin, namespace)
    caller.permit(CLUSTER)
    token = caller.token()
    wait_for(lambda: ask(server, token)[0] == 200, what="the right is seen")
    caller.forbid()
    wait_for(lambda: ask(server, token)[0] == 403, what="the right has ended")


def test_a_token_for_another_audience_is_refused(server: Server, admin: Api, namespace: str) -> None:
    caller = Caller(admin, namespace)
    caller.permit(CLUSTER)
    wait_for(lambda: ask(server, caller.token())[0] == 200, what="the right is seen")
    assert ask(server, caller.token("another"))[0] == 401


def test_a_server_may_ask_for_tokens_of_its_own_audience(
    plane: ControlPlane, admin: Api, objects: None, namespace: str, tmp_path: Path
) -> None:
    caller = Caller(admin, namespace)
    caller.permit(CLUSTER)
    environment = {"FLEETHOOK_DISPATCH_TOKEN_AUDIENCES": '["fleethook"]', "FLEETHOOK_ENGINES": '["dispatch"]'}
    kubeconfig = str(service_account(plane))
    with serving(tmp_path, "--kubeconfig", kubeconfig, manifests=None, **environment) as server:
        wait_for(lambda: is_ready(server), what="the server is ready")
        token = caller.token("fleethook")
        wait_for(lambda: ask(server, token)[0] == 200, what="the right is seen")
        assert ask(server, caller.token())[0] == 401
        server.stop()
        log = server.log.read_text()
    assert token not in log
    # Neither its signature nor its claims.
    assert not any(part in log for part in token.split("."))
    assert caller.user in plane_log(log)


def plane_log(log: str) -> str:
    """Return the log lines of answered reviews."""
    return "\n".join(line for line in log.splitlines() if '"msg":"review"' in line)


def test_the_server_cannot_review_tokens_without_the_right(
    plane: ControlPlane, admin: Api, objects: None, namespace: str, tmp_path: Path
) -> None:
    """All callers are refused, and the log names the missing right."""
    caller = Caller(admin, namespace)
    caller.permit(CLUSTER)
    powerless = Caller(admin, namespace, "powerless")
    kubeconfig = plane.kubeconfig(f"powerless-{namespace}", {"token": powerless.token()})
    environment = {"FLEETHOOK_ENGINES": '["dispatch"]'}
    with serving(tmp_path, "--kubeconfig", str(kubeconfig), manifests=None, **environment) as server:
        status, refused = ask(server, caller.token())
        assert (status, refused["reason"]) == (503, "ServiceUnavailable")
        wait_for(lambda: 'cannot create resource \\"tokenreviews\\"' in server.log.read_text(), what="the log says so")
    assert NAMESPACE not in refused["message"]
