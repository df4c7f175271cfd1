import asyncio
import json
import shutil
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleethook.admission import RuleError, validate
from fleethook.app import Fleethook, create_app
from fleethook.cluster.kubernetes.watched_resources import NAMESPACES
from fleethook.engine import EngineStartError
from fleethook.engines.rules.rules_server import RulesServer, check_followed, list_resources
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.server.kept_reviews import KeptReviews
from tests.tracing.test_spans_and_otel_variables import Noted
from tests.waiting import until

RULES = """
from fleethook.admission import Denied, mutate, validate

@validate("apps/v1", "Deployment")
def needs_owner(request):
    if "owner" not in request.labels:
        raise Denied("label `owner` is missing", field="metadata.labels")

@mutate("v1", "Pod", on="CREATE")
def default_seccomp(pod):
    pod.spec.setdefault("securityContext", {}).setdefault("seccompProfile", {"type": "RuntimeDefault"})

@validate("v1", "Pod")
def fails(pod):
    return pod.missing

@validate("v1", "Pod", follows=("v1", "ConfigMap"))
async def reads(pod, store, settings, warnings):
    warnings.append(store.get("v1", "ConfigMap", settings["map"], namespace="n").data.text)
"""
MORE = RULES.replace("is missing", "is not there") + '\n@validate("v1", "Pod")\ndef added():\n    raise Denied("no")\n'


def review(kind: str, group: str = "", **document: Any) -> bytes:
    request = {
        "uid": "u",
        "operation": "CREATE",
        "namespace": "n",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "object": {"kind": kind, "metadata": {"name": "a", "namespace": "n"}, **document},
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


@asynccontextmanager
async def serving(tmp_path: Path, rules: str = RULES, **settings: Any) -> AsyncIterator[tuple[Fleethook, RulesServer]]:
    (tmp_path / "rules.py").write_text(rules)
    app = create_app(Settings(rules=[tmp_path / "rules.py"], rule_settings={"map": "texts"}, **settings), log=None)
    async with app.router.lifespan_context(app):
        yield app, app.engines["rules"]


async def ask(app: Fleethook, path: str, body: bytes) -> Any:
    return (await call(app, path, body)).json()["response"]


async def ask_for_owner(app: Fleethook) -> str:
    """Return the message of the refusal of a Deployment without owner. The answer of a failed rule has another one."""
    return str((await ask(app, "/rules/validate/needs-owner", review("Deployment", "apps")))["status"]["message"])


MISSING = "metadata.labels: label `owner` is missing"


async def test_rules_answer_reviews(tmp_path: Path) -> None:
    async with serving(tmp_path) as (app, _):
        refused = await ask(app, "/rules/validate/needs-owner", review("Deployment", "apps"))
        assert (refused["allowed"], refused["status"]["code"]) == (False, 403)
        assert refused["status"]["message"] == "metadata.labels: label `owner` is missing"
        patched = await ask(app, "/rules/mutate/default-seccomp", review("Pod", spec={}))
        assert (patched["allowed"], patched["patchType"]) == (True, "JSONPatch")
        assert "/rules/validate/needs-owner" in app.openapi()["paths"]


async def test_in_a_dry_run_of_doctor_only_the_named_rule_refuses(tmp_path: Path) -> None:
    async with serving(tmp_path) as (app, server):

        async def find_verdict(path: str, **members: Any) -> Any:
            document = json.loads(review("Pod", spec={}))
            document["request"] |= {"dryRun": True, **members}
            annotations = {"fleethook.io/doctor": "default-seccomp"}
            document["request"]["object"]["metadata"]["annotations"] = annotations
            answer = await ask(app, path, json.dumps(document).encode())
            return answer["allowed"], answer.get("status", {}).get("message", "")

        mutating = "/rules/mutate/default-seccomp"
        assert await find_verdict(mutating) == (False, "the server answers, as `fleethook doctor` asked")
        assert await find_verdict("/rules/validate/fails") == (True, "")
        assert (await find_verdict(mutating, dryRun=False))[0]
        assert not (await find_verdict("/rules/validate/fails", dryRun=False))[0]
        (tmp_path / "rules.py").write_text("broken(")
        await server.reload()
        asked = "the server answers, as `fleethook doctor` asked"
        assert await find_verdict(mutating) == (False, f"{asked}: {server.problem}")


async def test_a_failing_rule_names_its_line_and_harms_no_other(tmp_path: Path) -> None:
    async with serving(tmp_path) as (app, _):
        failed = await ask(app, "/rules/validate/fails", review("Pod"))
        assert (failed["allowed"], failed["status"]["code"]) == (False, 500)
        assert "rules.py:15: AttributeError: the object has no member 'missing'" in failed["status"]["message"]
        assert (await ask(app, "/rules/mutate/default-seccomp", review("Pod", spec={})))["allowed"]


async def test_metrics_traces_and_logs_name_the_rule_and_no_unknown_one(tmp_path: Path) -> None:
    lines: list[Any] = []
    spans: list[Noted] = []

    def trace(name: str, _: object) -> Noted:
        spans.append(Noted(name))
        return spans[-1]

    (tmp_path / "rules.py").write_text(RULES)
    settings = Settings(rules=[tmp_path / "rules.py"])
    app = create_app(settings, log=lines.append, trace=trace)
    async with app.router.lifespan_context(app):
        await ask(app, "/rules/validate/needs-owner", review("Deployment", "apps"))
        await call(app, "/rules/validate/a-1", review("Pod"))
        await call(app, "/rules/validate/a-2", review("Pod"))
    text = app.metrics.exposition("")[0].decode()
    assert 'route="/rules/validate/needs-owner"' in text
    assert "a-1" not in text
    assert "/rules/validate/needs-owner" in str(lines[0])
    assert "/rules/validate/needs-owner" in spans[0].name
    assert not any("a-1" in span.name for span in spans)


async def test_reviews_of_rules_are_recorded(tmp_path: Path) -> None:
    """Those of a rule that a reload adds, too."""
    records = KeptReviews()
    (tmp_path / "rules.py").write_text(RULES)
    app = create_app(Settings(rules=[tmp_path / "rules.py"]), log=None, record=records)
    async with app.router.lifespan_context(app):
        await ask(app, "/rules/validate/needs-owner", review("Deployment", "apps"))
        (tmp_path / "rules.py").write_text(MORE)
        await app.engines["rules"].reload()
        await ask(app, "/rules/validate/added", review("Pod"))
    assert [one.route.rpartition("/")[2] for one in records] == ["needs-owner", "added"]


async def test_rules_have_the_limits_of_the_server(tmp_path: Path) -> None:
    async with serving(tmp_path, body_limit=100) as (app, _):
        assert (await call(app, "/rules/validate/needs-owner", review("Deployment", "apps"))).status == 413


async def test_a_rule_whose_objects_are_not_read_has_failed(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(RULES)
    (tmp_path / "k").write_text("")
    app = create_app(Settings(rules=[tmp_path / "rules.py"], kubeconfig=tmp_path / "k"), log=None)
    answer = await ask(app, "/rules/validate/reads", review("Pod"))
    assert (answer["allowed"], answer["status"]["code"]) == (False, 500)
    assert "rules.py:17: configmaps cannot be read: " in answer["status"]["message"]
    assert await ask_for_owner(app) == MISSING


async def test_a_review_of_another_kind_is_an_error(tmp_path: Path) -> None:
    async with serving(tmp_path) as (app, _):
        answer = await ask(app, "/rules/validate/needs-owner", review("Pod"))
        assert (answer["allowed"], answer["status"]["code"]) == (False, 400)
        assert "the rule needs-owner does not decide about this request" in answer["status"]["message"]


async def test_a_changed_file_is_served_with_its_new_rules(tmp_path: Path) -> None:
    async with serving(tmp_path) as (app, _):
        (tmp_path / "new").write_text(MORE)
        (tmp_path / "new").replace(tmp_path / "rules.py")
        await until(lambda: "/rules/validate/added" in app.reviews)
        assert (await ask(app, "/rules/validate/added", review("Pod")))["status"]["message"] == "no"
        answer = await ask(app, "/rules/validate/needs-owner", review("Deployment", "apps"))
        assert answer["status"]["message"].endswith("is not there")


async def test_several_files_are_served_and_followed(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    one, two = tmp_path / "rules.py", tmp_path / "more" / "rules.py"
    one.write_text(RULES)
    text = 'from fleethook.admission import Denied, validate\n\n@validate("v1", "Pod")\ndef second():\n    raise Denied("1")\n'
    two.write_text(text)
    app = create_app(Settings(rules=[one, two]), log=None)
    async with app.router.lifespan_context(app):
        server = app.engines["rules"]
        assert (await ask(app, "/rules/validate/second", review("Pod")))["status"]["message"] == "1"
        assert await ask_for_owner(app) == MISSING
        two.write_text(text.replace('"1"', '"2"'))
        await server.reload()
        assert (await ask(app, "/rules/validate/second", review("Pod")))["status"]["message"] == "2"
        two.write_text(text.replace("second", "needs_owner"))
        await server.reload()
        places = f"{two}:3: two rules have the name 'needs-owner', and the other one is at {one}:4"
        assert server.problem.startswith(places)


async def test_a_volume_of_a_config_map_is_followed(tmp_path: Path) -> None:
    """The kubelet writes a new directory, and replaces the link to it."""

    def publish(number: int, text: str) -> None:
        (tmp_path / f"..{number}").mkdir()
        (tmp_path / f"..{number}" / "rules.py").write_text(text)
        (tmp_path / "..new").symlink_to(f"..{number}")
        (tmp_path / "..new").rename(tmp_path / "..data")

    publish(1, RULES)
    (tmp_path / "rules.py").symlink_to("..data/rules.py")
    app = create_app(Settings(rules=[tmp_path / "rules.py"]), log=None)
    async with app.router.lifespan_context(app):
        for number, name in ((2, "added"), (3, "again")):
            publish(number, MORE.replace("added", name))
            shutil.rmtree(tmp_path / f"..{number - 1}")
            await until(lambda name=name: f"/rules/validate/{name}" in app.reviews)


async def test_a_broken_file_keeps_the_former_rules_and_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as (app, server):
        (tmp_path / "rules.py").write_text("broken(")
        await server.reload()
        assert [one.detail for one in app.checks() if one.name == "rules"] == [
            f"{tmp_path}/rules.py:1: SyntaxError: '(' was never closed; the former rules stay"
        ]
        assert "admission rules not reloaded: " + server.problem in caplog.text
        assert await ask_for_owner(app) == MISSING
        (tmp_path / "rules.py").write_text(MORE)
        await server.reload()
        assert [one.detail for one in app.checks() if one.name == "rules"] == [""]


async def test_the_server_answers_by_the_former_rules_while_a_file_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, release = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "gate", SimpleNamespace(started=started, release=release))
    async with serving(tmp_path) as (app, server):
        (tmp_path / "rules.py").write_text(MORE + "\nimport gate\ngate.started.set()\ngate.release.wait()\n")
        reloading = asyncio.create_task(server.reload())
        await until(started.is_set)
        assert await ask_for_owner(app) == MISSING
        release.set()
        await reloading
        assert (server.problem, (await ask_for_owner(app)).endswith("is not there")) == ("", True)


@pytest.mark.parametrize("module", ["names", "library.names"])
async def test_a_changed_module_beside_the_file_is_loaded(tmp_path: Path, module: str) -> None:
    file = tmp_path / f"{module.replace('.', '/')}.py"
    if file.parent != tmp_path:
        file.parent.mkdir()
        (file.parent / "__init__.py").touch()
    file.write_text("NAME = 'before'\n")
    rules = RULES + f"\nfrom {module} import NAME\n@validate('v1', 'Pod', name=NAME)\ndef named(pod): pass\n"
    async with serving(tmp_path, rules) as (app, server):
        file.write_text("NAME = 'after'\n")
        await server.reload()
        assert "/rules/validate/after" in app.reviews


async def test_a_removed_rule_decides_until_its_webhook_is_removed(tmp_path: Path) -> None:
    async with serving(tmp_path, MORE) as (app, server):
        (tmp_path / "rules.py").write_text(RULES)
        await server.reload()
        answer = await ask(app, "/rules/validate/added", review("Pod"))
        assert (answer["allowed"], answer["status"]["message"]) == (False, "no")
        (tmp_path / "rules.py").write_text(MORE.replace('"no"', '"again"'))
        await server.reload()
        answer = await ask(app, "/rules/validate/added", review("Pod"))
        assert answer["status"]["message"] == "again"
        # It does not decide about other kinds.
        assert (await ask(app, "/rules/validate/added", review("ConfigMap")))["status"]["code"] == 400


async def test_the_failure_policy_decides_about_a_rule_that_the_replica_does_not_have(tmp_path: Path) -> None:
    async with serving(tmp_path) as (app, _):
        # kube-apiserver applies failurePolicy if the status is not 200. A response with a verdict would decide itself.
        answer = await call(app, "/rules/validate/of-another-replica", review("Pod"))
        assert answer.status == 503
        assert "this replica has no such rule for Pod" in answer.json()["message"]


async def test_the_registration_follows_the_file(tmp_path: Path) -> None:
    async with serving(tmp_path, service="fleet/mine") as (app, server):

        def registered() -> list[list[str]]:
            return [[one["name"].partition(".")[0] for one in each["webhooks"]] for each in server.configurations()]

        assert registered() == [["default-seccomp"], ["fails", "needs-owner", "reads"]]
        assert {one["metadata"]["name"] for one in server.configurations()} == {"mine-rules"}
        (tmp_path / "rules.py").write_text(RULES.partition("@mutate")[0])
        await server.reload()
        assert app.parts.registration_changed.is_set()
        assert registered() == [[], ["needs-owner"]]


async def test_objects_beside_the_server_are_never_sent(tmp_path: Path) -> None:
    for address in ({"service": "fleet/fleethook"}, {"webhook_url": "https://x", "namespace": "fleet"}):
        async with serving(tmp_path, **address) as (_, server):
            webhooks = [one for each in server.configurations() for one in each["webhooks"]]
            selectors = [one["namespaceSelector"]["matchExpressions"] for one in webhooks]
            assert [one["values"][0] for (one,) in selectors] == ["fleet"] * 4


def test_without_files_the_engine_has_no_route_and_no_check() -> None:
    server = create_app(Settings(), log=None).engines["rules"]
    assert (list(server.routes()), list(server.checks()), list(server.tasks())) == ([], [], [])
    assert not server.registers


def rule(*kind: str, **options: Any) -> Any:
    def decides() -> None:
        pass

    return validate(*kind, **options)(decides)


def write(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "rules.py"
    file.write_text(f"from fleethook.admission import validate\n{text}")
    return Settings(rules=[file])


def test_the_followed_kinds_are_resources_to_read(tmp_path: Path) -> None:
    follows = '@validate("v1", "Pod", follows=[("v1", "ConfigMap"), ("apps/v1", "Deployment")])\ndef a(store): pass'
    found = list_resources(write(tmp_path, follows)).needed
    assert [one.path for one in found] == ["/apis/apps/v1/deployments", "/api/v1/configmaps"]
    assert all(one.is_complete for one in found)


def test_a_broken_file_is_an_error_at_start(tmp_path: Path) -> None:
    with pytest.raises(EngineStartError, match=r"rules\.py:2: SyntaxError"):
        list_resources(write(tmp_path, "broken("))


def test_a_rule_cannot_follow_a_kind_that_the_server_does_not_read_completely() -> None:
    reads = rule("v1", "Pod", follows=("v1", "Namespace"))
    with pytest.raises(RuleError, match="follows Namespace, and no rule did so when the server started: restart"):
        check_followed([reads], {})
    with pytest.raises(RuleError, match="follows Namespace, of which other engines of this server read only a part"):
        check_followed([reads], {NAMESPACES.group_kind: NAMESPACES})
