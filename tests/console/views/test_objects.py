from typing import Any

from app.console.views.objects import PAGE_SIZE, list_objects
from app.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import yurt_app_daemon, yurt_app_set
from tests.console.visits import make_context


def names(listed: Any) -> Any:
    return [key.name for key in listed.keys]


def test_objects_of_the_kinds_are_sorted_by_kind_and_name() -> None:
    store = make_context(yurt_app_set("b"), yurt_app_set("a"), yurt_app_daemon("z")).store
    assert names(list_objects(store, [YURT_APP_SET, YURT_APP_DAEMON])) == ["z", "a", "b"]
    assert names(list_objects(store, [YURT_APP_SET])) == ["a", "b"]


def test_the_filter_matches_namespace_and_name_without_case() -> None:
    store = make_context(yurt_app_set("alpha"), yurt_app_set("beta")).store
    assert names(list_objects(store, [YURT_APP_SET], text="ALP")) == ["alpha"]
    assert names(list_objects(store, [YURT_APP_SET], text="default/b")) == ["beta"]


def test_pages_are_bounded_and_cover_all_objects() -> None:
    store = make_context(*(yurt_app_set(f"s{number:04}") for number in range(PAGE_SIZE + 1))).store
    first, second = (list_objects(store, [YURT_APP_SET], page=page) for page in (1, 2))
    assert (first.total, first.pages, len(first.keys)) == (PAGE_SIZE + 1, 2, PAGE_SIZE)
    assert names(second) == [f"s{PAGE_SIZE:04}"]
    assert list_objects(store, [YURT_APP_SET], page=99) == second
    assert list_objects(store, [YURT_APP_SET], page=-1) == first


def test_an_empty_list_has_one_page() -> None:
    assert list_objects(make_context().store, [YURT_APP_SET]) == ((), 0, 1, 1)
