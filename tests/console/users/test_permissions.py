from types import SimpleNamespace
from typing import Any

from fleethook.console.reviews.review_index import Indexed
from fleethook.console.sections import find_section
from fleethook.console.users.local_access import AccessError, User
from fleethook.console.users.permissions import select_permitted_reviews
from fleethook.engines.interpret.hooks.hook_configuration import CONFIGURATIONS
from fleethook.engines.interpret.pages.interpreter_matrix import INTERPRETED
from fleethook.model.gvk import GroupKind
from fleethook.model.karmada import CONFIG_MAP, CUSTOMIZATION
from fleethook.model.openyurt import NODE_POOL, YURT_APP_SET
from tests.builders import yurt_app_set
from tests.console.test_review_rates import review
from tests.console.visits import console_of, make_context, visit
from tests.engines.dispatch.builders import binding


class Restricted:
    """Permits some kinds to one user, who is named by a header."""

    needs_credentials = True
    limits_kinds = True

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


async def test_a_section_needs_the_rights_for_further_kinds_that_the_source_has() -> None:
    authorizer = Restricted(*CONFIGURATIONS, CUSTOMIZATION)
    assert (await visit(console_of(authorizer=authorizer), "/interpreters", x_user="jane")).status == 200
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "secret-name", "namespace": "karmada-system"},
    }
    app = console_of(config, authorizer=authorizer)
    for path in ("/interpreters", "/interpreters/playground"):
        answer = await visit(app, path, x_user="jane")
        assert answer.status == 403
        assert b"may not get ConfigMap in all namespaces" in answer.body
        assert b"secret-name" not in answer.body
    authorizer.kinds.add(CONFIG_MAP)
    assert (await visit(app, "/interpreters", x_user="jane")).status == 200


def test_the_section_of_interpreters_names_all_kinds_that_its_views_read() -> None:
    section = find_section("/interpreters")
    assert section is not None
    assert set(INTERPRETED) <= {*section.kinds, *section.further}


async def test_pages_of_dispatch_need_the_rights_for_the_kinds_that_they_show() -> None:
    hooks = (
        GroupKind("admissionregistration.k8s.io", f"{one}WebhookConfiguration") for one in ("Mutating", "Validating")
    )
    app = console_of(binding("ws3", "secret-owner", "widgets.example.org"), authorizer=Restricted(*hooks))
    for path in ("/dispatch", "/dispatch/map", "/dispatch/findings"):
        answer = await visit(app, path, x_user="jane")
        assert answer.status == (200 if path == "/dispatch" else 403)
        assert b"secret-owner" not in answer.body


class Deciding:
    """Permits one kind."""

    def __init__(self, kind: GroupKind) -> None:
        self.needs_credentials = True
        self.limits_kinds = True
        self._kind = kind

    async def authenticate(self, _request: Any) -> User:
        return User("jane")

    async def permits(self, _user: User, group_kind: GroupKind, _namespace: str) -> bool:
        return group_kind == self._kind


INDEXED = Indexed(("a",), (review("2026-01-01T00:00:00Z"),))


async def select(**fields: Any) -> list[Any]:
    app = SimpleNamespace(state=SimpleNamespace(context=make_context(**fields)))
    request: Any = SimpleNamespace(app=app, state=SimpleNamespace(user=User("jane")))
    return list(await select_permitted_reviews(request, INDEXED))


async def test_reviews_of_a_permitted_kind_are_selected() -> None:
    assert await select(authorizer=Deciding(GroupKind("apps", "Deployment"))) == list(INDEXED.reviews)


async def test_reviews_of_other_kinds_are_left_out() -> None:
    assert await select(authorizer=Deciding(GroupKind("", "Secret"))) == []


async def test_a_local_user_sees_all_reviews() -> None:
    assert await select() == list(INDEXED.reviews)
