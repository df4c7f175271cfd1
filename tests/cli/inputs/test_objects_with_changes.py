"""The sources of commands."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.cli.inputs.objects_with_changes import (
    SourceOptions,
    check_options,
    overlay,
    read_source,
    select_dispatching,
)
from fleethook.cluster.kubernetes.list_reading_and_decoding import EVERY_SHARD
from fleethook.cluster.kubernetes.watched_resources import CACHED, DEFINITIONS, DISPATCHING, RESOURCES
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.cluster.store import key_of
from tests.builders import node_pool, yurt_app_set
from tests.cli.conftest import WriteYAML
from tests.cli.fake_cluster import Cluster
from tests.engines.dispatch.builders import binding, definition

ALPHA = "/apis/apps.openyurt.io/v1alpha1"
FILE, CONFIG = Path("a.yaml"), Path("config")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            SourceOptions([FILE], CONFIG),
            "give only one of -f and --kubeconfig; use --change for files that change the objects of a cluster",
        ),
        (SourceOptions(kubeconfig=CONFIG, in_cluster=True), "give only one of --kubeconfig and --in-cluster"),
        (
            SourceOptions([FILE], context="c"),
            "give only one of -f and --context; use --change for files that change the objects of a cluster",
        ),
        (SourceOptions([FILE], kcp=True), "--kcp reads a cluster: give --kubeconfig or --in-cluster in place of -f"),
        (SourceOptions(kubeconfig=CONFIG, kcp_cache_kubeconfig=CONFIG), "--kcp-cache-kubeconfig needs --kcp"),
    ],
)
def test_contradictory_options_exit_2(options: SourceOptions, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        check_options(options)
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"fleethook: {message}\n"


def test_files_are_never_mixed_with_the_cluster_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config"
    config.write_text("{}")
    monkeypatch.setenv("KUBECONFIG", str(config))
    options = SourceOptions().beside([FILE], [CONFIG])
    assert (options.files, options.reads_cluster) == ([FILE, CONFIG], False)
    assert SourceOptions(context="c").beside().kubeconfig == config
    assert capsys.readouterr().err == ""
    assert SourceOptions().beside().kubeconfig == config
    assert capsys.readouterr().err == f"note: no files are given, so the objects are those of the cluster of {config}\n"


def test_only_objects_of_the_namespace_are_read(write_yaml: WriteYAML, capsys: pytest.CaptureFixture[str]) -> None:
    """An overrider without a namespace is in this one, and an object without namespace, as a NodePool, stays."""
    pool = {"apiVersion": "apps.openyurt.io/v1alpha1", "kind": "NodePool", "metadata": {"name": "p"}}
    objects = [yurt_app_set("here"), yurt_app_set("there"), yurt_app_set("free"), pool]
    objects[0]["metadata"]["namespace"] = "a"
    del objects[2]["metadata"]["namespace"]
    files = [Path(write_yaml("a.yaml", *objects))]
    found = read_source(SourceOptions(files, namespace="a"), RESOURCES).documents
    assert capsys.readouterr().err == ""
    assert [(key_of(one.object).namespace, key_of(one.object).name) for one in found] == [
        ("a", "here"),
        ("a", "free"),
        ("", "p"),
    ]


def test_a_namespace_without_objects_is_noted_with_those_of_the_others(
    write_yaml: WriteYAML, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [Path(write_yaml("a.yaml", yurt_app_set()))]
    assert not read_source(SourceOptions(files, namespace="shop"), RESOURCES).documents
    assert capsys.readouterr().err == "note: -n shop: there is no object in this namespace, but in default\n"


def test_a_kind_that_the_command_does_not_read_is_noted(
    write_yaml: WriteYAML, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [Path(write_yaml("a.yaml", yurt_app_set()))]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    edit = write_yaml("b.yaml", pod)
    read_source(SourceOptions(files, change=[Path(edit)]), RESOURCES)
    assert capsys.readouterr().err == f"note: {edit}: this command does not read any Pod\n"
    read_source(SourceOptions(files, change=[Path(edit)]), RESOURCES, every_kind=True)
    assert capsys.readouterr().err == ""


def test_a_named_file_of_other_kinds_is_noted(write_yaml: WriteYAML, capsys: pytest.CaptureFixture[str]) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    both, other = Path(write_yaml("a.yaml", yurt_app_set(), pod)), Path(write_yaml("b.yaml", pod))
    read_source(SourceOptions([both, other]), RESOURCES)
    assert capsys.readouterr().err == f"note: {other}: this command does not read any Pod\n"
    read_source(SourceOptions([other.parent]), RESOURCES)
    read_source(SourceOptions([other]), RESOURCES, every_kind=True)
    assert capsys.readouterr().err == ""


def test_a_cluster_is_changed_in_the_namespace_of_the_context(
    cluster: tuple[Cluster, tuple[str, ...]], write_yaml: WriteYAML
) -> None:
    held, (_, config, _, context) = cluster
    stored = yurt_app_set()
    stored["metadata"] = {"name": "demo", "namespace": "team", "uid": "1"}
    held.lists = {f"{ALPHA}/yurtappsets": [stored]}
    edited = yurt_app_set(pools=[])
    edited["metadata"] = {"name": "demo"}
    options = SourceOptions(kubeconfig=Path(config), context=context, change=[Path(write_yaml("b.yaml", edited))])
    source = read_source(options, RESOURCES)
    (document,) = source.documents
    assert (document.object["metadata"], document.object["spec"]) == (stored["metadata"], edited["spec"])
    assert source.before[0].place == "cluster"
    assert source.changed == {key_of(stored)}


def test_all_logical_clusters_of_a_kcp_are_read(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    held, (_, config, _, context) = cluster
    objects = []
    for name in ("x", "y"):
        stored = yurt_app_set()
        stored["metadata"]["annotations"] = {"kcp.io/cluster": name}
        objects.append(stored)
    held.lists = {f"/clusters/*{ALPHA}/yurtappsets": objects}
    source = read_source(SourceOptions(kubeconfig=Path(config), context=context, kcp=True), RESOURCES)
    assert [key_of(one.object).cluster for one in source.documents] == ["x", "y"]
    assert all(path.startswith("/clusters/*/") for _, path in held.requests)


def test_a_server_that_serves_nothing_is_noted(
    cluster: tuple[Cluster, tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    _, (_, config, _, context) = cluster
    source = read_source(SourceOptions(kubeconfig=Path(config), context=context), RESOURCES)
    assert source.documents == []
    text = capsys.readouterr().err
    assert "does not serve yurtappoverriders.apps.openyurt.io, " in text
    assert "so there are no such objects: check the URL in the kubeconfig" in text


def test_workspaces_are_optional(cluster: tuple[Cluster, tuple[str, ...]], capsys: pytest.CaptureFixture[str]) -> None:
    held, (_, config, _, context) = cluster
    held.forbidden = ("tenancy",)
    options = SourceOptions(kubeconfig=Path(config), context=context, kcp=True)
    read_source(options, select_dispatching(kcp=True))
    assert "note: logical clusters are known by name only: 403 Forbidden" in capsys.readouterr().err
    held.unserved = ("/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters",)
    with pytest.raises(SystemExit):
        read_source(options, select_dispatching(kcp=True))
    assert "does not serve logicalclusters.core.kcp.io at /clusters/*/apis/core.kcp.io/" in capsys.readouterr().err
    held.forbidden = ("apibindings",)
    with pytest.raises(SystemExit):
        read_source(options, select_dispatching(kcp=True))
    message = capsys.readouterr().err
    assert "use the kubeconfig of a shard, not of the front proxy, with the context shard-base" in message
    assert 'allow, in /clusters/*: {apiGroups: ["apis.kcp.io"], resources: [apibindings], verbs: [list]}' in message


def test_the_cache_server_of_a_kcp_has_the_webhooks_of_all_shards(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    held, (_, config, _, context) = cluster
    options = SourceOptions(kubeconfig=Path(config), context=context, kcp=True)
    # The cache server has a kubeconfig of its own, whose current context counts.
    config_of_cache = Path(config).with_name("cache")
    config_of_cache.write_text(f"current-context: {context}\n{Path(config).read_text()}")
    read_source(options._replace(kcp_cache_kubeconfig=config_of_cache), select_dispatching(kcp=True))
    lists = {path for _, path in held.requests if "/shards/" in path}
    assert lists == {f"{EVERY_SHARD}{one.path}" for one in CACHED}
    assert not {f"/clusters/*{one.path}" for one in CACHED} & {path for _, path in held.requests}


def test_a_cluster_that_is_no_kcp_needs_no_rights_for_its_kinds() -> None:
    assert select_dispatching(kcp=True) == DISPATCHING
    assert {one.group for one in select_dispatching(kcp=False)} == {
        "",
        "apiextensions.k8s.io",
        "admissionregistration.k8s.io",
    }


def test_kinds_of_kcp_are_read_if_a_definition_has_them(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    held, (_, config, _, context) = cluster
    options = SourceOptions(kubeconfig=Path(config), context=context)
    defined = definition("", "apibindings.apis.kcp.io", "v1alpha2", kind="APIBinding")
    held.lists = {
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": [defined],
        "/apis/apis.kcp.io/v1alpha2/apibindings": [binding("c", "p", "widgets.example.org")],
    }
    source = read_source(options, select_dispatching(kcp=False))
    assert [key_of(one.object).cluster for one in source.documents] == ["", "c"]
    assert not any("apiexports" in path for _, path in held.requests)
    held.requests.clear()
    read_source(options, [DEFINITIONS])
    assert len(held.requests) == 1


CLUSTER = "kcp.io/cluster"


def documents(*objects: dict[str, Any], source: str = "a.yaml") -> list[Document]:
    return [Document(one, source, line) for line, one in enumerate(objects, start=1)]


def named(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "example.org/v1", "kind": kind, "metadata": {"name": name, **metadata}}


def in_cluster(name: str, document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "metadata": {**document["metadata"], "annotations": {CLUSTER: name}}}


def change(*objects: dict[str, Any]) -> list[Document]:
    return documents(*objects, source="change.yaml")


def refuse(changes: list[Document], capsys: pytest.CaptureFixture[str], *, kcp: bool = False) -> str:
    """Return the message with which a change is refused."""
    with pytest.raises(SystemExit) as caught:
        overlay([], changes, kcp=kcp)
    assert caught.value.code == 2
    return capsys.readouterr().err


def test_an_object_is_replaced_in_its_place_and_a_new_one_is_added() -> None:
    given = documents(yurt_app_set("a"), node_pool("east"), yurt_app_set("b"))
    edited, added = yurt_app_set("a", pools=[]), yurt_app_set("c")
    changed, keys = overlay(given, change(edited, added))
    assert [one.object for one in changed] == [edited, given[1].object, given[2].object, added]
    assert [one.place for one in changed] == ["change.yaml:1", "a.yaml:2", "a.yaml:3", "change.yaml:2"]
    assert keys == {key_of(edited), key_of(added)}


def test_an_object_of_another_logical_cluster_stays() -> None:
    given = documents(in_cluster("x", yurt_app_set()), in_cluster("y", yurt_app_set()))
    edited = in_cluster("y", yurt_app_set(pools=[]))
    assert [one.object for one in overlay(given, change(edited))[0]] == [given[0].object, edited]


def test_of_a_kcp_every_manifest_names_its_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    message = refuse(change(yurt_app_set()), capsys, kcp=True)
    assert message == "fleethook: change.yaml:1: the logical cluster is unknown: add the annotation kcp.io/cluster\n"


def without_namespace(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "metadata": {name: one for name, one in document["metadata"].items() if name != "namespace"}}


def test_a_manifest_for_a_cluster_is_in_the_namespace_of_the_context() -> None:
    bare = without_namespace(yurt_app_set())
    changed, _ = overlay([], change(bare, node_pool("east")), namespace="team")
    assert [one.object["metadata"].get("namespace") for one in changed] == ["team", None]


@pytest.mark.parametrize("bare_first", [True, False])
def test_in_files_no_namespace_and_default_are_the_same(*, bare_first: bool) -> None:
    pair = [without_namespace(yurt_app_set()), yurt_app_set(pools=[])]
    before, after = pair if bare_first else reversed(pair)
    changed, keys = overlay(documents(before), change(after))
    assert [one.object["metadata"].get("namespace") for one in changed] == [before["metadata"].get("namespace")]
    assert changed[0].object["spec"] == after["spec"]
    assert keys == {key_of(changed[0].object)}


def test_two_manifests_of_an_object_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    message = refuse(change(yurt_app_set(), yurt_app_set()), capsys)
    assert "change.yaml:2: YurtAppSet/default/demo is already defined at change.yaml:1" in message


def test_a_manifest_replaces_an_object_and_keeps_what_the_server_sets() -> None:
    server = {"uid": "1", "resourceVersion": "7", "ownerReferences": [{"uid": "2"}]}
    before = {**named("Widget", "a", **server, labels={"a": "b"}), "spec": {"x": 1}, "status": {"ok": True}}
    manifest = {**named("Widget", "a", ownerReferences=[]), "spec": {"y": 2}}
    ((after,), _) = overlay(documents(before), change(manifest))
    metadata = {"name": "a", **server, "ownerReferences": []}
    assert after.object == {**manifest, "metadata": metadata, "status": {"ok": True}}
