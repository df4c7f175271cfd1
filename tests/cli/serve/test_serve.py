"""One process of `serve`: its certificate, its summary, and the tasks that end with it."""

import asyncio
import base64
import json
import re
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from fleethook.cli.serve import serve
from fleethook.cli.serve.serve import _describe_registration, run_server
from fleethook.server.log import LogLines
from fleethook.settings import Settings
from fleethook.tracing.spans_and_otel_variables import TracingError
from tests.cli.commands import invoke, run_command
from tests.serving import EXAMPLES, MUTATE, REVIEW, Server, serving
from tests.waiting import until, wait_for


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server")) as started:
        yield started


def read_response(body: bytes) -> Any:
    return json.loads(body)["response"]


def test_each_review_writes_one_line_of_json_to_the_log(server: Server) -> None:
    server.request("POST", MUTATE, REVIEW.read_bytes(), X_Request_Id="log-me")
    # Lines are written together, up to 50 ms later.
    wait_for(lambda: '"requestId":"log-me"' in server.log.read_text())
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    (line,) = [line for line in lines if line.get("requestId") == "log-me"]
    assert (line["namespace"], line["operation"], line["allowed"], line["patchOps"]) == ("story-2", "CREATE", True, 4)


def test_a_changed_manifest_takes_effect_and_a_broken_one_does_not(tmp_path: Path) -> None:
    manifests = tmp_path / "m"
    manifests.mkdir()
    story = EXAMPLES / "yurtappoverrider" / "story-2"
    for name in ("yurtappset.yaml", "overrider.yaml"):
        (manifests / name).write_text((story / name).read_text())
    with serving(tmp_path, manifests=manifests) as server:

        def image() -> str:
            response = read_response(server.request("POST", MUTATE, REVIEW.read_bytes())[1])
            return str(
                next(
                    op["value"]
                    for op in json.loads(base64.b64decode(response["patch"]))
                    if op["path"].endswith("/image")
                )
            )

        rule = manifests / "overrider.yaml"
        assert image() == "nginx:1.14.2"
        rule.write_text(rule.read_text().replace("nginx:1.14.2", "nginx:9"))
        wait_for(lambda: image() == "nginx:9")
        rule.write_text("broken: [")
        failing = 'fleethook_store_source_failing{source="manifests"} 1.0'
        wait_for(lambda: failing in server.request("GET", "/metrics")[1].decode())
        assert image() == "nginx:9"
        status, body = server.request("GET", "/readyz")
        assert status == 200
        assert "overrider.yaml:" in json.loads(body)["checks"][1]["detail"]
        assert "cannot read manifest" in server.log.read_text()


def test_mistakes_in_overriders_are_logged_and_leave_the_server_ready(tmp_path: Path) -> None:
    manifests = tmp_path / "m"
    manifests.mkdir()
    story = EXAMPLES / "yurtappoverrider" / "story-2"
    for name in ("yurtappset.yaml", "overrider.yaml"):
        (manifests / name).write_text((story / name).read_text())
    rule = manifests / "overrider.yaml"
    text = rule.read_text()
    rule.write_text(text.replace("  - hangzhou\n", "  - hangzou\n", 1))
    line = rule.read_text().splitlines().index("  - hangzou") + 1
    finding = "entries[0].pools[1]: YurtAppSet yurtappset-demo has no node pool 'hangzou'; did you mean 'hangzhou'?"
    with serving(tmp_path, manifests=manifests) as server:

        def detail() -> str:
            status, body = server.request("GET", "/readyz")
            checks = {check["name"]: check for check in json.loads(body)["checks"]}
            assert (status, json.loads(body)["ready"]) == (200, True)
            return str(checks["overriders"]["detail"])

        assert f"{rule}:{line}: error: YurtAppOverrider story-2/demo1: {finding}" in detail()
        lines = [json.loads(one) for one in server.log.read_text().splitlines() if one.startswith("{")]
        (logged,) = [one for one in lines if finding in str(one)]
        assert (logged["level"], logged["file"], logged["line"]) == ("error", str(rule), line)
        rule.write_text(text)
        wait_for(lambda: "hangzou" not in detail())


@pytest.mark.parametrize(
    ("arguments", "environment", "text"),
    [
        ([], {}, "no source of objects: give --manifests DIR"),
        (["--rules", "/nowhere.py"], {}, "/nowhere.py: cannot be read: No such file or directory"),
        (["--manifests", "/nowhere"], {}, "--manifests: /nowhere does not exist"),
        (["-f", "examples/nodepools.yaml"], {}, "examples/nodepools.yaml is a file; give its directory"),
        (["-f", "examples", "--filename", "certs"], {}, "--manifests: give one directory, not 2"),
        (["--manifests", "examples", "--port", "99999"], {}, "--port: Input should be less than or equal to 65535"),
        (
            ["-f", "examples"],
            {"FLEETHOOK_PORT": "99999"},
            "settings: port: Input should be less than or equal to 65535",
        ),
        (["--manifests", "examples"], {"FLEETHOOK_BODY_LIMIT": "many"}, "settings: body_limit:"),
        (
            ["--manifests", "examples", "--resolve", "a.svc:443:x"],
            {},
            "--resolve: 'a.svc:443:x': expected HOST:",
        ),
        (["--manifests", "examples", "--in-cluster"], {}, "give one of --manifests, --kubeconfig and --in-cluster"),
        (["--manifests", "examples", "--cert-secret", "a/b"], {}, "--cert-secret needs a cluster"),
        (["--manifests", "examples", "--register"], {}, "settings: registration needs a cluster"),
        (["--kubeconfig", "k", "--unregister-on-exit"], {}, "settings: --unregister-on-exit needs --register"),
        (["--kubeconfig", "k", "--register"], {}, "give either --service or --webhook-url"),
        (["--kubeconfig", "k", "--cert-secret", "no-namespace"], {}, "--cert-secret:"),
        (["--kubeconfig", "k", "--cert-secret", "a/b"], {}, "--kubeconfig: there is no file k"),
        (["--manifests", "examples", "--config", "/nowhere.yaml"], {}, "/nowhere.yaml is not a file"),
    ],
)
def test_invalid_arguments_exit_2_with_a_remedy(arguments: list[str], environment: dict[str, str], text: str) -> None:
    result = invoke(["serve", *arguments], env=environment)
    assert (result.exit_code, result.stdout) == (2, "")
    assert text in result.stderr


def test_flags_override_the_environment_which_overrides_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fleethook.settings import Settings  # noqa: PLC0415 - the environment has to be set first

    file = tmp_path / "settings.yaml"
    file.write_text("port: 1\ndrain_delay: 2\nbody_limit: 3\n")
    monkeypatch.setenv("FLEETHOOK_CONFIG", str(file))
    monkeypatch.setenv("FLEETHOOK_PORT", "10")
    monkeypatch.setenv("FLEETHOOK_DRAIN_DELAY", "20")
    settings = Settings(port=100)
    assert (settings.port, settings.drain_delay, settings.body_limit) == (100, 20, 3)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ["--port", "{used}"],
            "cannot listen on 127.0.0.1:{used}: address already in use; give another --port, or end",
        ),
        (
            ["--host", "192.0.2.1"],
            "192.0.2.1:9443: cannot assign requested address; this machine does not have the address",
        ),
        (["--host", "nohost.invalid"], "cannot listen on nohost.invalid:9443: "),
        (
            ["--cert-dir", "{here}/file"],
            "the directory of the certificate, {here}/file, is not a directory; give another",
        ),
        (["--cert-dir", "/proc/none"], "/proc/none: no such file or directory; give another --cert-dir"),
        (["--cert-dir", "{here}/pem"], "{here}/pem/tls.key cannot be used: one of them is not in PEM"),
        (["--cert-dir", "{here}/half"], "{here}/half/tls.crt has no tls.key beside it: add it, or remove tls.crt"),
        (["--client-ca-file", "{here}/none"], "{here}/none: no such file or directory; provide the CA certificates"),
        (["--record", "/proc/none"], "/proc/none: no such file or directory"),
    ],
)
def test_a_start_that_fails_names_the_option_to_change(tmp_path: Path, options: list[str], text: str) -> None:
    (tmp_path / "file").touch()
    for name in ("pem/tls.crt", "pem/tls.key", "half/tls.crt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        names = {"used": listener.getsockname()[1], "here": tmp_path}
        given = [one.format(**names) for one in ("--cert-dir", "{here}/certs", *options)]
        result = run_command("serve", "-f", "examples", *given)
    assert result.returncode == 2
    last = result.stderr.splitlines()[-1]
    assert last.startswith("fleethook: ")
    assert text.format(**names) in last
    assert "Errno" not in last
    assert (tmp_path / "half" / "tls.crt").read_text() == "x"


def test_files_of_other_tools_are_skipped_and_an_unreadable_document_delays_readiness_only(tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    shutil.copytree(EXAMPLES / "yurtappoverrider" / "story-2", manifests)
    shutil.copy(EXAMPLES / "nodepools.yaml", manifests)
    (manifests / "values.yaml").write_text("replicaCount: 1\n")
    (manifests / "node-test.yaml").write_text("name: x\noperation: Retain\noutput: {}\n")
    (manifests / "later.yaml").write_text("kind: ConfigMap\n")
    with serving(tmp_path, "--exclude", "node-*", manifests=manifests) as server:

        def read_check() -> tuple[int, str]:
            status, body = server.request("GET", "/readyz")
            (check,) = (one for one in json.loads(body)["checks"] if one["name"] == "manifests")
            return status, check["detail"]

        assert read_check() == (503, f"{manifests}/later.yaml:1: apiVersion and kind are required")
        response = read_response(server.request("POST", MUTATE, REVIEW.read_bytes())[1])
        assert "patch" in response
        (manifests / "later.yaml").write_text("a: b\n")
        wait_for(lambda: read_check()[0] == 200, what="the server is ready")
        assert read_check()[1] == "skipped 2 documents that are no Kubernetes objects"
        # Bad input never loses a former object: the answer stays the same.
        file = manifests / "overrider.yaml"
        file.write_text(file.read_text().partition("kind:")[0])
        wait_for(lambda: "overrider.yaml" in read_check()[1], what="the server reports the file")
        assert read_response(server.request("POST", MUTATE, REVIEW.read_bytes())[1])["patch"] == response["patch"]
        assert read_check()[0] == 200


def settings(directory: Path, **given: Any) -> Settings:
    known: dict[str, Any] = {
        "manifests": EXAMPLES,
        "cert_dir": directory / "certs",
        "port": 0,
        "registration": "off",
        "controller": False,
    }
    return Settings(**{**known, **given})


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The servers that have begun to serve. Each ends at once."""
    seen: list[Any] = []

    class Ending(serve.GracefulServer):
        async def main_loop(self) -> None:
            seen.append(self)

    monkeypatch.setattr(serve, "GracefulServer", Ending)
    return seen


async def test_it_makes_a_certificate_and_prints_its_address(
    tmp_path: Path, stopped: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run_server(settings(tmp_path, dns_names=["localhost", "hook.example.org"]), LogLines())
    shown = capsys.readouterr().out
    assert re.search(r"fleethook serves on https://\S+:[1-9]\d+\n", shown)
    assert re.search(rf"objects: +\d+ from {re.escape(str(EXAMPLES))}, followed while it changes", shown)
    assert "(just created)" in shown
    certificate = x509.load_pem_x509_certificate((tmp_path / "certs" / "tls.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", "hook.example.org"} <= set(names.get_values_for_type(x509.DNSName))
    assert len(stopped) == 1


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"rules": True},
            'rules alone, because of --rules; to serve others too, set engines: FLEETHOOK_ENGINES=\'["crds"',
        ),
        ({"rules": True, "engines": {"rules", "crds"}}, "crds, rules, which the setting engines names\n"),
        ({"engines": {"crds"}}, "crds, which the setting engines names\n"),
        ({}, "crds, dispatch, interpret, overrider, rules\n"),
    ],
)
async def test_the_summary_has_the_engines_and_their_reason(
    tmp_path: Path, stopped: list[Any], capsys: pytest.CaptureFixture[str], given: dict[str, Any], line: str
) -> None:
    if "rules" in given:
        (tmp_path / "rules.py").write_text(HEAD + TWICE)
        given = {**given, "rules": [tmp_path / "rules.py"], "manifests": None}
    assert await run_server(settings(tmp_path, **given), LogLines())
    shown = capsys.readouterr().out
    assert f"  engines:     {line}" in shown
    assert ("objects:     only those in reviews" in shown) == ("rules" in given)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"webhook_url": "https://127.0.0.1:9446"}, "https://127.0.0.1:9446"),
        (
            {"webhook_url": "https://localhost:1"},
            "https://localhost:1, but this server listens on port 9446: give --port 1",
        ),
        ({"webhook_url": "https://proxy.example.org"}, "https://proxy.example.org"),
        ({"service": "fleet/fleethook"}, "fleet/fleethook"),
    ],
)
def test_the_summary_has_the_registered_address(given: dict[str, Any], line: str) -> None:
    registered = Settings(registration="all", in_cluster=True, **given)
    assert list(_describe_registration(registered, 9446)) == [f"  webhooks:    {line}"]
    assert list(_describe_registration(Settings(), 9446)) == []


async def test_the_certificate_has_the_names_by_which_it_is_called(tmp_path: Path, stopped: list[Any]) -> None:
    await run_server(settings(tmp_path, webhook_url="https://hooks.example.org:8443"), LogLines())
    certificate = x509.load_pem_x509_certificate((tmp_path / "certs" / "tls.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "hooks.example.org" in names.get_values_for_type(x509.DNSName)
    assert stopped


async def test_a_recording_starts_and_ends_with_the_server(tmp_path: Path, stopped: list[Any]) -> None:
    await run_server(settings(tmp_path, record=tmp_path / "records"), LogLines())
    assert (tmp_path / "records").is_dir()
    assert "recorder" not in {thread.name for thread in threading.enumerate()}
    assert stopped


async def test_traces_without_their_library_end_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleethook.tracing.spans_and_otel_variables._is_installed", lambda _: False)
    with pytest.raises(TracingError, match=r"fleethook\[otel\]"):
        await run_server(settings(tmp_path, otlp_endpoint="http://localhost:4318"), LogLines())


async def test_no_task_outlives_the_server(tmp_path: Path, stopped: list[Any]) -> None:
    before = asyncio.all_tasks()
    await run_server(settings(tmp_path), LogLines())
    await until(lambda: asyncio.all_tasks() <= before)
    assert stopped
    assert ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.crt"))


HEAD = "from fleethook.admission import mutate, validate\n"
TWICE = '@validate("v1", "Pod")\ndef a(): pass\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import missing_module\n", "rules.py:1: ModuleNotFoundError: No module named 'missing_module'"),
        ("raise SystemExit\n", "rules.py:1: SystemExit"),
        (HEAD + TWICE + TWICE, "rules.py:4: two rules have the name 'a', and the other one is at "),
        (
            HEAD + '@validate("v1", "Pod", object_selector={"a": "b"})\ndef a(): pass\n',
            "rules.py:2: a: object_selector:",
        ),
        (
            HEAD + '@validate("v1", "Pod", match_conditions={"a": "object."})\ndef a(): pass\n',
            "rules.py:2: a: match_conditions['a']: compilation failed",
        ),
        (HEAD + '@mutate("v1", "Pod", on="DELETE")\ndef a(): pass\n', "rules.py:2: a: on: a DELETE has no object"),
    ],
)
def test_a_bad_file_of_rules_exits_2_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "rules.py").write_text(text)
    result = invoke(["serve", "--rules", str(tmp_path / "rules.py"), "--cert-dir", str(tmp_path), "--port", "0"])
    assert (result.exit_code, problem in result.stderr) == (2, True), result.stderr


def test_a_rule_that_hangs_does_not_keep_the_server(tmp_path: Path) -> None:
    hangs = '@validate("v1", "Pod", timeout=1)\ndef hangs(settings): threading.Event().wait()\n'
    (tmp_path / "rules.py").write_text(f"import threading\n{HEAD}{hangs}")
    review = json.loads(REVIEW.read_bytes())
    review["request"] |= {
        "operation": "CREATE", "oldObject": None, "subResource": "", "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
    }  # fmt: skip
    with serving(tmp_path, "--rules", str(tmp_path / "rules.py"), manifests=None) as server:
        _, answer = server.request("POST", "/rules/validate/hangs", json.dumps(review).encode())
        assert b"no answer after 1 s" in answer
        assert server.stop() == 0
