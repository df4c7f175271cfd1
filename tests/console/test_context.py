from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleethook.cluster.followed_objects import Cluster
from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.console.context import VALIDATING, divide_sections, find_section, list_sections
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.settings import Settings
from tests.builders import yurt_app_set
from tests.console.visits import console_of, make_context, visit


def test_the_state_of_the_manifests_is_the_state_of_the_source(tmp_path: Path) -> None:
    context = make_context()
    assert list(context.parts()) == []
    source = ManifestSource([tmp_path], context.store)
    context = make_context(manifests=source)
    assert [(one.name, one.synced) for one in context.parts()] == [("manifests", False)]
    source.load()
    assert [(one.name, one.synced) for one in context.parts()] == [("manifests", True)]


@pytest.mark.parametrize(
    ("path", "title"),
    [("/", "Overview"), ("/overriders", "Overriders"), ("/overriders/pool", "Overriders"), ("/crds/", "CRD tarballs")],
)
def test_a_page_belongs_to_the_section_of_its_first_segment(path: Any, title: Any) -> None:
    section = find_section(path)
    assert section is not None
    assert section.title == title


def karmada(kind: str, group: str) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": {"name": "a", "namespace": "b"}}


def serve(*kinds: Any) -> Cluster:
    """Return a cluster that serves these kinds, and has no objects."""

    def find_informer(kind: Any) -> Any:
        return SimpleNamespace(synced=True, absent=kind not in kinds)

    return cast("Cluster", SimpleNamespace(source=SimpleNamespace(informer=find_informer)))


@pytest.mark.parametrize(
    ("documents", "fields", "used"),
    [
        ([yurt_app_set()], {}, ["Overriders"]),
        ([karmada("ResourceInterpreterCustomization", "config.karmada.io")], {}, ["Interpreters"]),
        ([karmada("Karmada", "operator.karmada.io")], {}, ["CRD tarballs"]),
        ([karmada("APIBinding", "apis.kcp.io")], {}, ["Dispatch"]),
        ([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "karmada-config"}}], {}, ["Interpreters"]),
        ([], {"cluster": serve(YURT_APP_SET, VALIDATING)}, ["Overriders", "Dispatch"]),
        ([], {"settings": Settings(manifests=Path(), interpreters=["a.py"])}, ["Interpreters"]),
        ([], {"rules": object()}, ["Rules"]),
        ([], {"reviews": object()}, ["Reviews"]),
    ],
)
def test_sections_without_objects_are_under_more(documents: Any, fields: Any, used: list[str]) -> None:
    shown, others = divide_sections(make_context(*documents, **fields))
    assert [one.title for one in shown] == ["Overview", *used]
    assert {*shown, *others} == {*list_sections()}


def test_an_empty_source_shows_all_sections() -> None:
    assert divide_sections(make_context()) == (list_sections(), ())


async def test_the_page_of_a_section_under_more_is_marked_and_in_sight() -> None:
    text = (await visit(console_of(yurt_app_set()), "/crds")).body.decode()
    assert "<details open><summary>More</summary>" in text
    assert '<a href="/crds" aria-current="page">' in text
    assert "<details><summary>More</summary>" in (await visit(console_of(yurt_app_set()), "/overriders")).body.decode()
