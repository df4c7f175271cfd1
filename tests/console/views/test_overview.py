from app.console.views.overview import count_objects
from app.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import yurt_app_daemon, yurt_app_set
from tests.console.visits import make_context


def test_objects_are_counted_by_kind() -> None:
    context = make_context(yurt_app_set("a"), yurt_app_set("b"), yurt_app_daemon())
    assert count_objects(context.store) == [(YURT_APP_DAEMON, 1), (YURT_APP_SET, 2)]


def test_a_kind_without_objects_is_left_out() -> None:
    context = make_context(yurt_app_set("a"))
    (key,) = context.store.keys(YURT_APP_SET)
    context.store.remove(key)
    assert count_objects(context.store) == []
