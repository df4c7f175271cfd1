import json
from typing import Any

import pytest
import yaml

from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.commands.render import parse_subject
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import (
    container,
    entry,
    image,
    node_pool,
    overrider,
    patch,
    pod_template,
    pool,
    yurt_app_daemon,
    yurt_app_set,
)
from tests.cli.commands import Result, invoke
from tests.cli.conftest import WriteYAML
from tests.cli.fake_cluster import Cluster
from tests.serving import EXAMPLES

STORIES = EXAMPLES / "yurtappoverrider"


def render(*arguments: str, stdin: str = "", **environment: str) -> Result:
    return invoke(["render", *arguments], stdin=stdin, env=environment)


def test_yaml_has_the_workload_of_every_pool() -> None:
    result = render("-f", str(STORIES / "story-2"))
    documents = list(yaml.safe_load_all(result.stdout))
    assert result.exit_code == 0, result.stderr
    # The story sets replicas as the proposal does, which is worth a warning for each of its two entries.
    assert [
        line.partition("while replicas differ from spec.topology.pools")[1] != "" for line in result.stderr.splitlines()
    ] == [True] * 2
    found = {
        made["metadata"]["labels"]["apps.openyurt.io/pool-name"]: (
            made["spec"]["template"]["spec"]["containers"][0]["image"], made["spec"]["replicas"],
        )
        for made in documents
    }  # fmt: skip
    assert found == {"beijing": ("nginx:1.14.2", 3), "hangzhou": ("nginx:1.14.2", 3), "shanghai": ("nginx:1.13.2", 5)}


def test_diff_names_the_entry_that_set_each_field() -> None:
    result = render("-f", str(STORIES / "story-5"), "--pool", "beijing", "--output", "diff")
    assert result.exit_code == 0, result.stderr
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert lines[:4] == [
        "YurtAppSet story-5/yurtappset-demo, node pool beijing, Deployment by demo1",
        "/spec/template/spec/containers/0/image   # entries[0].items[0]",
        "- nginx:1.13.0",
        "+ nginx:1.14.2",
    ]
    assert any(
        line.endswith("# entries[2].patches[0]") and line.startswith("/spec/template/spec/volumes/1") for line in lines
    )
    assert "hangzhou" not in result.stdout


@pytest.mark.parametrize(
    ("path", "value", "orders"),
    [
        ("initContainers", [container("b"), container("a")], ["a; b", "b; a"]),
        ("containers/0/env", [{"name": "B"}, {"name": "A"}], ["A; B", "B; A"]),
        ("containers/0/ports", [{"containerPort": 2}, {"containerPort": 1}], ["containerPort=1; containerPort=2", "containerPort=2; containerPort=1"]),
        ("hostAliases", [{"ip": "2.2.2.2"}, {"ip": "1.1.1.1"}], ["1.1.1.1; 2.2.2.2", "2.2.2.2; 1.1.1.1"]),
        ("imagePullSecrets", [{"name": "t"}, {"name": "s"}], ["s; t", "t; s"]),
        ("volumes", [{"name": "v"}, {"name": "z"}, {"name": "u"}], ["u; v", "v; z; u"]),
    ],
)  # fmt: skip
def test_diff_names_the_order_of_a_list_that_an_entry_reorders(
    path: str, value: Any, orders: list[str], write_yaml: WriteYAML
) -> None:
    lists = {
        "initContainers": [container("a"), container("b")], "hostAliases": [{"ip": "1.1.1.1"}, {"ip": "2.2.2.2"}],
        "imagePullSecrets": [{"name": "s"}, {"name": "t"}], "volumes": [{"name": "u"}, {"name": "v"}],
    }  # fmt: skip
    app = container("app", env=[{"name": "A"}, {"name": "B"}], ports=[{"containerPort": 1}, {"containerPort": 2}])
    rule = overrider(entry("*", patches=[patch("replace", f"/spec/template/spec/{path}", value)]))
    subject = yurt_app_set(pools=[pool("hangzhou")], template=pod_template(containers=[app], **lists))
    result = render("-f", write_yaml("all.yaml", subject, rule), "--output", "diff")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.strip() for line in result.stdout.splitlines()]
    at = lines.index(f"/spec/template/spec/{path}   # entries[0].patches[0]")
    assert lines[at + 1 : at + 3] == [f"- order: {orders[0]}", f"+ order: {orders[1]}"]


def test_diff_is_coloured_on_a_terminal() -> None:
    plain = render("-f", str(STORIES / "story-2"), "--output", "diff").stdout
    coloured = render("-f", str(STORIES / "story-2"), "--output", "diff", FORCE_COLOR="1", TERM="xterm-256color").stdout
    assert "\x1b[" not in plain
    assert "\x1b[32m" in coloured


def test_json_has_the_changes_and_their_sources() -> None:
    result = render("-f", str(STORIES / "story-3"), "--output", "json")
    rows = {row["pool"]: row for row in json.loads(result.stdout)}
    assert rows["hangzhou"]["changes"] == [
        {
            "path": "/spec/template/spec/containers/0/image",
            "before": "demo:1.0",
            "after": "xxx:latest",
            "source": "entries[0].items[0]",
        }
    ]
    assert rows["beijing"]["changes"] == []


def test_an_overrider_that_does_not_fit_exits_1_with_file_and_line() -> None:
    broken = (STORIES / "story-5" / "overrider.yaml").read_text().replace("volumes/-", "nothing/deep/-")
    result = render("-f", str(STORIES / "story-5" / "yurtappset.yaml"), "-f", "-", stdin=broken)
    assert result.exit_code == 1
    assert (
        "<stdin>:22: error: YurtAppOverrider story-5/demo1: entries[1].patches[0]: node pool hangzhou: add /spec"
        in result.stderr
    )
    assert result.stderr.endswith("fleethook: 2 errors, 0 warnings\n")
    assert "pool-name: shanghai" in result.stdout, "pools without errors are printed"


def test_nothing_to_render_exits_2() -> None:
    result = render("-f", str(STORIES / "story-2" / "overrider.yaml"))
    assert result.exit_code == 2
    assert "no YurtAppSet or YurtAppDaemon" in result.stderr
    assert "with node pool 'nowhere'" in render("-f", str(STORIES / "story-2"), "--pool", "nowhere").stderr


ALPHA = "/apis/apps.openyurt.io/v1alpha1"


def render_here(*arguments: str) -> tuple[int, str, str]:
    """Run the command in this process; return exit code, standard output and standard error."""
    result = invoke(["render", *arguments])
    return result.exit_code, result.stdout, result.stderr


def rule(tag: str, *pools: str) -> dict[str, Any]:
    return overrider(entry(*pools, items=[image("nginx", tag)]))


def test_a_cluster_is_rendered(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    held, options = cluster
    held.lists = {
        f"{ALPHA}/yurtappsets": [yurt_app_set()],
        f"{ALPHA}/yurtappoverriders": [rule("nginx:2", "beijing")],
        f"{ALPHA}/nodepools": [],
        f"{ALPHA}/yurtappdaemons": [],
    }
    code, out, err = render_here(*options, "-o", "json")
    assert (code, err) == (0, "")
    assert [(row["pool"], len(row["changes"])) for row in json.loads(out)] == [("hangzhou", 0), ("beijing", 1)]


@pytest.mark.parametrize(
    ("option", "written", "hint"),
    [
        ("--pool", "bejing", "with node pool 'bejing'; did you mean 'beijing'?"),
        ("--pool", "tokyo-1", "with node pool 'tokyo-1'\n"),
        ("--subject", "YurtAppSet/yurtapset-demo", "did you mean YurtAppSet/yurtappset-demo?"),
    ],
)
def test_a_misspelled_name_gets_a_suggestion(option: str, written: str, hint: str) -> None:
    result = render("-f", str(STORIES / "story-5"), option, written)
    assert result.exit_code == 2
    assert hint in result.stderr


def test_only_workloads_that_a_change_affects_are_printed(
    cluster: tuple[Cluster, tuple[str, ...]], write_yaml: WriteYAML
) -> None:
    held, options = cluster
    held.lists = {
        f"{ALPHA}/yurtappsets": [yurt_app_set()],
        f"{ALPHA}/yurtappoverriders": [rule("nginx:2", "beijing")],
        f"{ALPHA}/nodepools": [],
        f"{ALPHA}/yurtappdaemons": [],
    }
    change = write_yaml("change.yaml", rule("nginx:3", "beijing"))
    code, out, err = render_here(*options, "--change", change, "-o", "diff")
    assert (code, err) == (0, "1 of 2 workloads differ\n")
    assert out.splitlines() == [
        "YurtAppSet default/demo, node pool beijing, Deployment by demo1",
        "  /spec/template/spec/containers/0/image   # entries[0].items[0]",
        "    - nginx:2",
        "    + nginx:3",
    ]
    _, out, _ = render_here(*options, "--change", change)
    assert (out.count("kind: Deployment"), out.count("image: nginx:3")) == (1, 1)
    (row,) = json.loads(render_here(*options, "--change", change, "-o", "json")[1])
    tags = [row[when]["spec"]["template"]["spec"]["containers"][0]["image"] for when in ("before", "workload")]
    assert tags == ["nginx:2", "nginx:3"]
    assert row["changes"] == [
        {
            "path": "/spec/template/spec/containers/0/image",
            "before": "nginx:2",
            "after": "nginx:3",
            "source": "entries[0].items[0]",
        }
    ]


@pytest.mark.parametrize("edit", ["annotation", "same"])
def test_an_edit_without_effect_prints_nothing(write_yaml: WriteYAML, edit: str) -> None:
    files = write_yaml("a.yaml", yurt_app_set(), rule("nginx:2", "beijing"))
    edited = rule("nginx:2", "beijing")
    if edit == "annotation":
        edited["metadata"]["annotations"] = {"a": "b"}
    assert render_here("-f", files, "--change", write_yaml("b.yaml", edited)) == (0, "", "0 of 2 workloads differ\n")


def test_an_overrider_without_entries_shows_the_template(write_yaml: WriteYAML) -> None:
    files = write_yaml("a.yaml", yurt_app_set(), rule("nginx:2", "beijing"))
    _, out, err = render_here("-f", files, "--change", write_yaml("b.yaml", overrider()), "-o", "diff")
    assert err == "1 of 2 workloads differ\n"
    assert out.splitlines() == [
        "YurtAppSet default/demo, node pool beijing, Deployment by demo1",
        "  /spec/template/spec/containers/0/image   # template",
        "    - nginx:2",
        "    + nginx:1.0",
    ]


def test_pools_that_come_and_go_are_named(write_yaml: WriteYAML) -> None:
    files = write_yaml("a.yaml", yurt_app_set())
    change = write_yaml("b.yaml", yurt_app_set(pools=[pool("hangzhou"), pool("shanghai")]))
    _, out, err = render_here("-f", files, "--change", change, "-o", "diff")
    assert err == "2 of 3 workloads differ\n"
    assert out.splitlines() == [
        "YurtAppSet default/demo, node pool shanghai, Deployment",
        "  new",
        "YurtAppSet default/demo, node pool beijing, Deployment",
        "  gone",
    ]
    _, out, _ = render_here("-f", files, "--change", change)
    assert "# YurtAppSet default/demo, node pool beijing, Deployment: gone\n" in out
    rows = {row["pool"]: row for row in json.loads(render_here("-f", files, "--change", change, "-o", "json")[1])}
    assert rows["shanghai"]["before"] is None
    assert rows["beijing"]["workload"] is None


def test_a_new_node_pool_affects_the_daemons_that_select_it(write_yaml: WriteYAML) -> None:
    files = write_yaml("a.yaml", yurt_app_daemon(), node_pool("hangzhou", {"region": "east"}))
    change = write_yaml("b.yaml", node_pool("shanghai", {"region": "east"}), node_pool("berlin", {"region": "west"}))
    _, out, _ = render_here("-f", files, "--change", change, "-o", "diff")
    assert out.splitlines() == ["YurtAppDaemon default/agent, node pool shanghai, Deployment", "  new"]


def test_only_findings_of_the_change_are_reported(write_yaml: WriteYAML) -> None:
    files = write_yaml("a.yaml", yurt_app_set(), rule("nginx:2", "nowhere"))
    good = write_yaml("b.yaml", yurt_app_set(pools=[pool("hangzhou")]))
    assert render_here("-f", files, "--change", good)[0] == 0
    bad = write_yaml("c.yaml", rule("nginx:2", "elsewhere"))
    code, _, err = render_here("-f", files, "--change", bad)
    assert code == 1
    assert "elsewhere" in err
    assert "nowhere" not in err


def test_a_workload_that_no_longer_renders_is_an_error_and_not_gone(write_yaml: WriteYAML) -> None:
    files = write_yaml("a.yaml", yurt_app_set(), rule("nginx:2", "beijing"))
    patch = {"path": "/spec/nothing/deep", "operator": "replace", "value": 1}
    broken = overrider(entry("beijing", patches=[patch]))
    code, out, err = render_here("-f", files, "--change", write_yaml("b.yaml", broken), "-o", "diff")
    assert (code, out) == (1, "")
    assert "0 of 2 workloads differ, 1 cannot be rendered\n" in err


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("YurtAppSet/demo", True), ("yurtappset/demo", True), ("yurtappsets/demo", True), ("yurtappset/default/demo", True),
        ("YurtAppSet.apps.openyurt.io/default/demo@root", True), ("YurtAppSet/other", False), ("YurtAppSet/team/demo", False),
        ("YurtAppSet.example.org/demo", False), ("YurtAppDaemon/demo", False), ("YurtAppSet/demo@other", False),
    ],
)  # fmt: skip
def test_a_subject_is_found_by_each_form_of_its_name(text: str, *, matches: bool) -> None:
    keys = [ObjectKey("root", YURT_APP_SET, namespace, "demo") for namespace in ("default", "")]
    assert [parse_subject(text).matches(key) for key in keys] == [matches, matches]


@pytest.mark.parametrize("text", ["demo", "a/b/c/d", "YurtAppSet/"])
def test_another_form_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_subject(text)
    message = f"fleethook: --subject {text}: expected KIND/NAME, as in YurtAppSet/default/demo\n"
    assert capsys.readouterr().err == message
