"""The sources of commands."""

from pathlib import Path

import pytest

from fleethook.cli.inputs.sources import ClusterOptions, SourceOptions, check_options, read_source, select_dispatching
from fleethook.cluster.kubernetes.list_watch import EVERY_SHARD
from fleethook.cluster.kubernetes.resources import CACHED, DEFINITIONS, DISPATCHING, RESOURCES
from fleethook.cluster.store import key_of
from tests.builders import yurt_app_set
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
    options = ClusterOptions().beside([FILE], [CONFIG])
    assert (options.files, options.reads_cluster) == ([FILE, CONFIG], False)
    assert ClusterOptions(context="c").beside().kubeconfig == config
    assert capsys.readouterr().err == ""
    assert ClusterOptions().beside().kubeconfig == config
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
    assert capsys.readouterr().err == f"note: {edit}:1: this command does not read any Pod\n"
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
    assert "serves none of yurtappoverriders.apps.openyurt.io, " in capsys.readouterr().err


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
