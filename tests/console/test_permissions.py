from typing import Any

from app.console.access import AccessError, User
from app.model.openyurt import NODE_POOL, YURT_APP_SET
from tests.builders import yurt_app_set
from tests.console.visits import console_of, visit


class Restricted:
    """Permits some kinds to one user, who is named by a header."""

    needs_credentials = True

    def __init__(self, *kinds: Any) -> None:
        self.kinds = set(kinds)

    async def authenticate(self, request: Any) -> Any:
        if (name := request.headers.get("x-user")) is None:
            raise AccessError(401, "no credentials")
        return User(name)

    async def permits(self, _user: Any, group_kind: Any, namespace: Any) -> Any:
        return group_kind in self.kinds and not namespace


async def test_a_request_without_credentials_sees_no_page() -> None:
    app = console_of(yurt_app_set("secret-name"), authorizer=Restricted(YURT_APP_SET))
    for path in ["/", "/overriders", "/dispatch", "/interpreters", "/crds", "/reviews"]:
        answer = await visit(app, path)
        assert answer.status == 401
        assert b"secret-name" not in answer.body


async def test_a_section_needs_the_right_to_get_each_of_its_kinds() -> None:
    app = console_of(yurt_app_set("secret-name"), authorizer=Restricted(YURT_APP_SET, NODE_POOL))
    answer = await visit(app, "/overriders", x_user="jane")
    assert answer.status == 403
    assert b"jane" in answer.body
    assert b"may not get YurtAppOverrider.apps.openyurt.io in all namespaces" in answer.body
    assert b"secret-name" not in answer.body


async def test_the_overview_counts_permitted_kinds_only() -> None:
    node_pool = {"apiVersion": "apps.openyurt.io/v1beta1", "kind": "NodePool", "metadata": {"name": "a"}}
    app = console_of(yurt_app_set(), node_pool, authorizer=Restricted(NODE_POOL))
    body = (await visit(app, "/", x_user="jane")).body
    assert b"<bdi>NodePool</bdi>" in body
    assert b"<bdi>YurtAppSet</bdi>" not in body
