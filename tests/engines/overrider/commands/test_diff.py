"""The three formats of predicted effects."""

import json

import pytest

from fleethook.cli.options import Output
from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.commands.diff import print_outcomes
from fleethook.engines.overrider.rollout.diff_prediction_and_totals import PredictedEffect
from fleethook.engines.overrider.rollout.workload_effect_and_openyurt_writes import Effect
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import entry, image, overrider, patch, pool, rendered, workload, yurt_app_set
from tests.cli.commands import invoke
from tests.cli.conftest import WriteYAML
from tests.cli.fake_cluster import Cluster

DEMO = ObjectKey("", YURT_APP_SET, "default", "demo")
SAME = PredictedEffect(DEMO, "beijing", "Deployment", "demo-y", Effect("unchanged"))


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("NO_COLOR", "1")


def show(capsys: pytest.CaptureFixture[str], output: Output, *outcomes: PredictedEffect) -> list[str]:
    print_outcomes(outcomes, output)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("effect", "details"),
    [
        (Effect("scales", 3, (2, 5), ("/spec/replicas",)), "replicas 2 → 5"),
        (Effect("spec", 0, (2, 5), ("/spec/paused",)), "(/spec/paused)"),
        (Effect("deleted", 4, (4, 0)), "4 pods"),
        (Effect("metadata", 0, (1, 1), ("/metadata/annotations/fleethook.io~1rendered",)),
         "(/metadata/annotations/fleethook.io~1rendered)"),
        (Effect("metadata", 0, (1, 1), ("/metadata/annotations/fleethook.io~1rendered", "/metadata/labels/a")),
         "(/metadata/labels/a)"),
        (Effect("spec", 0, (1, 1), ("/a", "/b", "/c")), "(/a, /b, /c)"),
        (Effect("spec", 0, (1, 1), ("/a", "/b", "/c", "/d", "/e")), "(/a, /b, /c and 2 more)"),
    ],
)  # fmt: skip
def test_details_name_the_numbers_and_fields_that_matter(
    capsys: pytest.CaptureFixture[str], effect: Effect, details: str
) -> None:
    line = show(capsys, Output.TEXT, SAME._replace(effect=effect))[1]
    assert line.endswith(f" {details}")


SET = yurt_app_set()
OLD = overrider(entry("*", items=[image("nginx", "nginx:2.0")]))
NEW = overrider(entry("hangzhou", items=[image("nginx", "nginx:3.0"), {"replicas": 5}]))
RUNNING = [rendered(workload(pool=name), SET, OLD) for name in ("hangzhou", "beijing")]


def run(*arguments: str) -> tuple[int, str, str]:
    result = invoke(["diff", *arguments], env={"NO_COLOR": "1", "COLUMNS": "300"})
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def now(write_yaml: WriteYAML) -> str:
    return write_yaml("now.yaml", SET, OLD, *RUNNING)


def test_workloads_are_listed_by_subject_and_node_pool(now: str, write_yaml: WriteYAML) -> None:
    code, output, _ = run("-f", write_yaml("new.yaml", NEW), "--against", now)
    assert code == 1
    title, *lines = output.splitlines()
    assert title == "YurtAppSet default/demo: rolls 2 of 2 workloads, 7 pods"
    assert lines == [
        "  beijing: Deployment demo-beijing-x rolls 2 pods (/spec/template/spec/containers/0/image)",
        "  hangzhou: Deployment demo-hangzhou-x rolls 5 pods replicas 2 → 5 (/spec/template/spec/containers/0/image)",
    ]


def test_a_misspelled_subject_is_an_error(now: str, write_yaml: WriteYAML) -> None:
    edit = write_yaml("new.yaml", yurt_app_set())
    found = invoke(["diff", "-f", edit, "--against", now, "--subject", "yurtappset/demmo"])
    assert found.exit_code == 2
    assert "there is no such YurtAppSet or YurtAppDaemon; did you mean yurtappset/demo?" in found.stderr
    assert invoke(["diff", "-f", edit, "--against", now, "--subject", "yurtappset/demo"]).exit_code == 0


def test_several_subjects_have_a_total(write_yaml: WriteYAML) -> None:
    other = yurt_app_set("other", pools=[pool("jinan")])
    now = write_yaml("now.yaml", SET, OLD, *RUNNING)
    code, output, _ = run("-f", write_yaml("new.yaml", NEW, other), "--against", now)
    assert code == 1
    assert "Total: rolls 2 of 2 workloads, 7 pods; creates 1 workload, 2 pods\n" in output
    assert "  jinan: Deployment created 2 pods\n" in output


def test_unchanged_workloads_are_counted_and_not_listed(now: str, write_yaml: WriteYAML) -> None:
    code, output, _ = run("-f", write_yaml("same.yaml", OLD), "--against", now)
    assert (code, output) == (0, "YurtAppSet default/demo: changes none of 2 workloads\n")


def test_an_overrider_without_entries_rolls_its_workloads_back(now: str, write_yaml: WriteYAML) -> None:
    code, output, _ = run("-f", write_yaml("new.yaml", overrider()), "--against", now)
    assert code == 1
    assert output.startswith("YurtAppSet default/demo: rolls 2 of 2 workloads, 4 pods\n")


def test_json_has_all_workloads(now: str, write_yaml: WriteYAML) -> None:
    one = overrider(*OLD["entries"], entry("beijing", items=[{"replicas": 3}]))
    code, output, _ = run("-f", write_yaml("new.yaml", one), "--against", now, "--output", "json")
    found = json.loads(output)
    assert code == 1
    assert {name: found[name] for name in ("summary", "count", "effects", "pods")} == {
        "summary": "scales 1 of 2 workloads, 1 pod",
        "count": 2,
        "effects": {"scales": 1, "unchanged": 1},
        "pods": {"scales": 1},
    }
    (subject,) = found["subjects"]
    beijing, hangzhou = subject["workloads"]
    assert (beijing["effect"], beijing["replicas"]) == ("scales", {"before": 2, "after": 3})
    assert (hangzhou["name"], hangzhou["effect"], hangzhou["paths"]) == ("demo-hangzhou-x", "unchanged", [])


def test_an_overrider_that_admission_refuses_is_reported_with_its_line(now: str, write_yaml: WriteYAML) -> None:
    broken = overrider(entry("*", patches=[patch("remove", "/spec/template/spec/priority")]))
    code, output, errors = run("-f", write_yaml("new.yaml", broken), "--against", now)
    assert code == 1
    assert "cannot render 2 of 2 workloads" in output
    assert "new.yaml:" in errors
    assert "error: YurtAppOverrider default/demo1: entries[0].patches[0]: node pools hangzhou, beijing" in errors


def test_a_workload_in_a_file_is_not_predicted(now: str, write_yaml: WriteYAML) -> None:
    code, output, errors = run("-f", write_yaml("new.yaml", RUNNING[0]), "--against", now)
    assert (code, output) == (0, "Total: changes none of 0 workloads\n")
    assert "new.yaml:1: the effect of applying a Deployment is not shown" in errors


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "nothing to compare: give -f FILE"),
        (("-f", "NOW"), "give --against FILE, --kubeconfig FILE or --in-cluster"),
    ],
)
def test_wrong_arguments_exit_2(now: str, arguments: tuple[str, ...], text: str) -> None:
    code, _, errors = run(*(now if one == "NOW" else one for one in arguments))
    assert code == 2
    assert text in errors


def test_a_cluster_is_read_with_one_list_per_resource(
    cluster: tuple[Cluster, tuple[str, ...]], write_yaml: WriteYAML
) -> None:
    server, options = cluster
    scaled = {**RUNNING[0], "metadata": {**RUNNING[0]["metadata"], "managedFields": [{"subresource": "scale"}]}}
    server.lists = {
        "/apis/apps.openyurt.io/v1alpha1/yurtappsets": [SET],
        "/apis/apps.openyurt.io/v1alpha1/yurtappoverriders": [OLD],
        "/apis/apps/v1/deployments": [scaled, RUNNING[1]],
    }
    code, output, _ = run("-f", write_yaml("new.yaml", NEW), *options)
    assert code == 1
    assert output.startswith("YurtAppSet default/demo: rolls 2 of 2 workloads, 7 pods\n")
    assert "replicas 2 were set through the scale subresource" in output
    assert server.queries["/apis/apps/v1/deployments"]["labelSelector"] == "apps.openyurt.io/pool-name"
    assert {method for method, _ in server.requests} == {"GET"}
