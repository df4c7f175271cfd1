from types import SimpleNamespace
from typing import Any

from fleethook.console.reviews.review_index import Indexed
from fleethook.console.users.access import User
from fleethook.console.users.permitted_reviews import select_permitted_reviews
from fleethook.model.gvk import GroupKind
from tests.console.views.test_review_rates import review
from tests.console.visits import make_context


class Deciding:
    """Permits one kind."""

    def __init__(self, kind: GroupKind) -> None:
        self.needs_credentials = True
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
