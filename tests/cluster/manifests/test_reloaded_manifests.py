import asyncio
import io
import json
import sys
from pathlib import Path

import pytest
import yaml

from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.cluster.store import Store
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import NODE_POOL, YURT_APP_SET
from tests.waiting import NET, until

CONFIG = GroupKind("", "ConfigMap")


def config(name: str, value: str = "1") -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: d}}\ndata: {{v: '{value}'}}\n"


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def source(tmp_path: Path, store: Store) -> ManifestSource:
    return ManifestSource([tmp_path], store, rescan_ms=100)


def versions(store: Store, *kinds: GroupKind) -> list[str]:
    return [document["apiVersion"] for kind in kinds for document in store.each("", kind)]


def names(store: Store) -> dict[str, str]:
    return {document["metadata"]["name"]: document["data"]["v"] for document in store.each("", CONFIG)}


def test_yaml_and_json_files_are_read(tmp_path: Path, source: ManifestSource, store: Store) -> None:
    (tmp_path / "sub" / "..2024").mkdir(parents=True)
    (tmp_path / "a.yaml").write_text(config("a") + "---\n" + config("b"))
    (tmp_path / "sub" / "c.yml").write_text(config("c"))
    (tmp_path / "sub" / "..2024" / "d.yaml").write_text(config("d"))
    (tmp_path / "e.json").write_text(json.dumps(yaml.safe_load(config("e"))))
    (tmp_path / "f.txt").write_text(config("f"))
    assert source.load()
    assert names(store) == {"a": "1", "b": "1", "c": "1", "e": "1"}
    assert (source.synced, source.errors, source.load()) == (True, {}, False)


def test_changed_and_deleted_files_update_the_store(tmp_path: Path, source: ManifestSource, store: Store) -> None:
    (tmp_path / "a.yaml").write_text(config("a"))
    (tmp_path / "b.yaml").write_text(config("b"))
    source.load()
    kept = store.get("", CONFIG, "d", "b")
    (tmp_path / "a.yaml").write_text(config("a", "22"))
    source.load()
    assert names(store) == {"a": "22", "b": "1"}
    assert store.get("", CONFIG, "d", "b") is kept
    (tmp_path / "a.yaml").unlink()
    source.load()
    assert names(store) == {"b": "1"}


def test_a_broken_file_keeps_its_last_good_objects(
    tmp_path: Path, source: ManifestSource, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(config("a"))
    source.load()
    file.write_text("kind: [broken")
    source.load()
    assert names(store) == {"a": "1"}
    assert list(source.errors) == [str(file)]
    assert "a.yaml:2: " in source.errors[str(file)]
    source.load()
    assert caplog.text.count("cannot read manifest") == 1
    file.write_text(config("a", "2"))
    source.load()
    assert (names(store), source.errors) == ({"a": "2"}, {})


def test_a_file_that_was_never_readable_delays_sync_but_not_other_files(
    tmp_path: Path, source: ManifestSource, store: Store
) -> None:
    (tmp_path / "bad.yaml").write_bytes(b"\xff")
    (tmp_path / "good.yaml").write_text(config("a"))
    source.load()
    assert (names(store), len(source.errors), source.synced) == ({"a": "1"}, 1, False)
    (tmp_path / "bad.yaml").write_text(config("b"))
    source.load()
    assert (names(store), source.synced) == ({"a": "1", "b": "1"}, True)
    (tmp_path / "bad.yaml").write_bytes(b"\xff")
    source.load()
    assert (names(store), source.synced) == ({"a": "1", "b": "1"}, True)


def test_an_unreadable_document_keeps_the_last_state_of_its_file(
    tmp_path: Path, source: ManifestSource, store: Store
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"{config('a')}---\nkind: X\n---\n{config('b')}---\na: [\n")
    source.load()
    assert (names(store), source.synced) == ({}, False)
    (part,) = source.parts()
    assert "a.yaml:6: apiVersion and kind are required; " in part.detail
    assert f"{file}:14: " in part.detail
    file.write_text(f"{config('a')}---\n{config('b')}")
    source.load()
    assert (names(store), source.synced) == ({"a": "1", "b": "1"}, True)
    # A half-written document may be text, or a mapping without kind.
    for text in ("kind: [", "kind: ConfigMap", "apiVers", "metadata: {name: b}"):
        file.write_text(f"{config('a', '2')}---\n{text}")
        source.load()
        assert (names(store), source.synced, len(source.errors)) == ({"a": "1", "b": "1"}, True, 1)
    file.write_text("\n")
    source.load()
    assert (names(store), len(source.errors)) == ({"a": "1", "b": "1"}, 1)
    file.write_text(config("a", "6"))
    source.load()
    assert (names(store), source.errors) == ({"a": "6"}, {})


def test_documents_that_are_no_objects_are_skipped_and_reported_once(
    tmp_path: Path, source: ManifestSource, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (tmp_path / "values.yaml").write_text("replicas: 1\n")
    (tmp_path / "a.yaml").write_text(f"{config('a')}---\nresources: []\n")
    source.load()
    assert (names(store), source.synced, source.errors) == ({"a": "1"}, True, {})
    (part,) = source.parts()
    assert (part.detail, part.failing) == ("skipped 2 documents that are no Kubernetes objects", False)
    (tmp_path / "a.yaml").write_text(f"{config('a', '2')}---\nresources: []\n")
    source.load()
    assert (names(store), source.errors) == ({"a": "2"}, {})
    assert caplog.text.count("values.yaml:1: has neither apiVersion nor kind") == 1


def test_a_field_that_the_api_lacks_is_a_warning_until_it_is_corrected(
    tmp_path: Path, source: ManifestSource, caplog: pytest.LogCaptureFixture
) -> None:
    text = "ConfigMap d/a: Data: is not a field of ConfigMap in Kubernetes 1.36; did you mean data?"
    (tmp_path / "a.yaml").write_text(config("a").replace("\ndata", "\nData"))
    source.load()
    (tmp_path / "a.yaml").write_text("# Another line\n" + config("a").replace("\ndata", "\nData"))
    source.load()
    assert [(one.levelname, one.message) for one in caplog.records] == [("WARNING", f"{tmp_path / 'a.yaml'}:4: {text}")]
    (state,) = source.parts()
    assert (state.synced, state.failing, state.detail) == (True, False, f"{tmp_path / 'a.yaml'}:5: {text}")
    (tmp_path / "a.yaml").write_text(config("a"))
    source.load()
    assert [one.detail for one in source.parts()] == [""]


def test_a_new_definition_checks_the_objects_of_its_kind_again(
    tmp_path: Path, source: ManifestSource, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: example.org/v2\nkind: Widget\nmetadata: {name: a}\n")
    source.load()
    assert caplog.messages == []
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {"group": "example.org", "names": {"kind": "Widget"}, "versions": [{"name": "v1", "served": True}]},
    }
    (tmp_path / "b.json").write_text(json.dumps(definition))
    source.load()
    (message,) = caplog.messages
    assert message.endswith("a.yaml:1: Widget a: apiVersion: Widget has no version 'v2'; write example.org/v1")
    (tmp_path / "b.json").unlink()
    source.load()
    assert [one.detail for one in source.parts()] == [""]


def test_deleting_an_unreadable_file_completes_the_sync(tmp_path: Path, source: ManifestSource) -> None:
    (tmp_path / "bad.yaml").write_bytes(b"\xff")
    source.load()
    (tmp_path / "bad.yaml").unlink()
    source.load()
    assert (source.errors, source.synced) == ({}, True)


def test_an_object_in_two_files_is_reported_and_the_first_wins(
    tmp_path: Path, source: ManifestSource, store: Store
) -> None:
    (tmp_path / "a.yaml").write_text(config("same", "first"))
    (tmp_path / "b.yaml").write_text(config("same", "second"))
    source.load()
    assert names(store) == {"same": "first"}
    (text,) = source.errors.values()
    assert "ConfigMap d/same is already defined at" in text
    assert "a.yaml:1" in text


def test_objects_keep_the_version_of_their_file(tmp_path: Path, source: ManifestSource, store: Store) -> None:
    for kind, version in (("YurtAppSet", "v1beta1"), ("NodePool", "v1beta2")):
        text = f"apiVersion: apps.openyurt.io/{version}\nkind: {kind}\nmetadata: {{name: a}}\n"
        (tmp_path / f"{kind}.yaml").write_text(text)
    source.load()
    assert versions(store, YURT_APP_SET, NODE_POOL) == ["apps.openyurt.io/v1beta1", "apps.openyurt.io/v1beta2"]
    text = (tmp_path / "YurtAppSet.yaml").read_text()
    (tmp_path / "YurtAppSet.yaml").write_text(text.replace("v1beta1", "v1alpha1"))
    source.load()
    assert versions(store, YURT_APP_SET) == ["apps.openyurt.io/v1alpha1"]


def test_a_removed_directory_keeps_all_objects(tmp_path: Path, store: Store) -> None:
    directory = tmp_path / "m"
    directory.mkdir()
    (directory / "a.yaml").write_text(config("a"))
    source = ManifestSource([directory], store, rescan_ms=100)
    source.load()
    (directory / "a.yaml").unlink()
    directory.rmdir()
    source.load()
    assert (names(store), len(source.errors)) == ({"a": "1"}, 1)


async def test_files_directories_and_standard_input_are_followed_together(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named file may have any suffix. An editor replaces it; a deletion looks the same for a moment, and keeps it."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(config("in").encode())))
    file, directory = tmp_path / "a.txt", tmp_path / "later"
    file.write_text(config("a"))
    source = ManifestSource([file, directory, Path("-"), file], store, rescan_ms=100)
    source.load()
    assert (names(store), source.synced, [*source.errors]) == ({"a": "1", "in": "1"}, False, [str(directory)])
    stop = asyncio.Event()
    follower = asyncio.create_task(source.follow(stop))
    directory.mkdir()
    (directory / "b.json").write_text(json.dumps(yaml.safe_load(config("b"))))
    await until(lambda: names(store) == {"a": "1", "b": "1", "in": "1"})
    for value in ("2", "3"):
        (tmp_path / "new").write_text(config("a", value))
        (tmp_path / "new").rename(file)
        await until(lambda value=value: names(store)["a"] == value)  # type: ignore[misc]
    assert (source.synced, source.errors) == (True, {})
    file.unlink()
    await until(lambda: bool(source.errors))
    assert (names(store)["a"], source.synced) == ("3", True)
    stop.set()
    await asyncio.wait_for(follower, NET)


async def test_many_objects_are_stored_in_slices(tmp_path: Path) -> None:
    store = Store()
    source = ManifestSource([tmp_path], store)
    source.load()
    stored = 0
    most = 0

    def count(*_: object) -> None:
        nonlocal stored
        stored += 1

    store.subscribe(count)
    (tmp_path / "a.yaml").write_text("---\n".join(config(f"c{number}") for number in range(1_000)))
    reload = asyncio.create_task(source.reload())
    while not reload.done():
        before = stored
        await asyncio.sleep(0)
        most = max(most, stored - before)
    assert await reload
    assert stored == 1_000
    assert most <= 100
    assert not await source.reload()
