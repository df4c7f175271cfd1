from tests.builders import yurt_app_set
from tests.console.visits import console_of, visit


async def test_the_list_shows_matching_objects_and_keeps_the_filter() -> None:
    app = console_of(yurt_app_set("alpha"), yurt_app_set("beta"))
    body = (await visit(app, "/overriders", query="q=alp")).body.decode()
    assert "<bdi>alpha</bdi>" in body
    assert "<bdi>beta</bdi>" not in body
    assert 'value="alp"' in body


async def test_a_list_of_several_pages_links_to_its_neighbours() -> None:
    app = console_of(*(yurt_app_set(f"s{number:04}") for number in range(250)))
    body = (await visit(app, "/overriders", query="q=s%26&page=1")).body.decode()
    assert "0 objects" in body
    body = (await visit(app, "/overriders", query="q=s&page=2")).body.decode()
    assert 'href="?q=s&amp;page=1"' in body
    assert 'href="?q=s&amp;page=3"' in body


async def test_a_page_that_is_no_number_is_refused() -> None:
    assert (await visit(console_of(), "/overriders", query="page=x")).status == 422
