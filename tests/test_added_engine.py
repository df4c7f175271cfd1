"""An engine of another distribution is a folder with an entry point; its contributions are found."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.waiting import NET

ROOT = Path(__file__).parents[1]
ENGINE = """
    from fleethook.engine import Engine, CommandSpec

    ENGINE = Engine(
        name="greeter",
        order=50,
        server="greeter.greeter_server:GreeterServer",
        resources="greeter.greeter_server:list_resources",
        indexes="greeter.greeter_server:INDEXES",
        settings="greeter.greeter_settings:GreeterSettings",
        commands={"greet": CommandSpec("greeter.greet:greet", "Print a greeting.")},
        webhooks="greeter.greet:list_webhooks",
        page="greeter.pages.greetings:PAGE",
    )
"""
SERVER = """
    from fleethook.cluster.followed_objects import Followed
    from fleethook.cluster.kubernetes.watched_resources import NAMESPACES
    from fleethook.cluster.store import Index
    from fleethook.model.admission import allowed
    from fleethook.server.engine_server import EngineServer
    from greeter.greeter_settings import GreeterSettings
    from fleethook.server.engine_server import Check
    from fleethook.server.metrics import Gauges
    from fleethook.server.reviews.admission_endpoint import make_admission_route

    BY_TEAM = Index("by_team", NAMESPACES.group_kind, lambda cluster, one: one["metadata"].get("labels", {}).values())
    INDEXES = (BY_TEAM,)


    def list_resources(settings):
        return Followed((NAMESPACES,))


    class GreeterServer(EngineServer):
        leads = True
        led = ran = 0

        def routes(self):
            return [make_admission_route("/greet", "Admit politely", self.admit)]

        def admit(self, request):
            return allowed(warnings=(self.context.settings.section(GreeterSettings).greeting,))

        def checks(self):
            yield Check("greeter", ok=True, detail=f"{len(list(self.context.store.find(BY_TEAM, '', 'web')))} teams")

        def collectors(self):
            yield Gauges("greeter_greetings", "Greetings.", lambda: iter([({}, 7.0)]))

        def tasks(self):
            yield "greetings", self.run()

        async def run(self):
            self.ran += 1

        async def lead(self, leadership):
            self.led += 1
"""
FILES = {
    "greeter/__init__.py": "",
    "greeter/engine.py": ENGINE,
    "greeter/greeter_server.py": SERVER,
    "greeter/greeter_settings.py": """
        from fleethook.server_settings import ServerSettings

        class GreeterSettings(ServerSettings):
            greeting: str = "hello"
    """,
    "greeter/greet.py": '''
        def greet() -> None:
            """Print a greeting."""
            print("hello")

        def list_webhooks():
            from fleethook.cluster.registration.webhook_configurations import VALIDATING, OwnWebhook

            return [OwnWebhook("pods.greeter.example.org", VALIDATING, "/greet", "", "v1", ("pods",), {}, ())]
    ''',
    "greeter/pages/__init__.py": "",
    "greeter/pages/templates/greetings/list.html": """
        {% extends "base.html" %}
        {% block title %}Greetings{% endblock %}
        {% block content %}<h1>Greetings</h1>{% endblock %}
    """,
    "greeter/pages/greetings.py": """
        from fastapi import APIRouter
        from starlette.requests import Request
        from starlette.responses import HTMLResponse

        from fleethook.console.page_frame import render
        from fleethook.console.context import ConsolePage, Section

        router = APIRouter(prefix="/greetings")
        PAGE = ConsolePage(Section("/greetings", "Greetings"), router)


        @router.get("")
        async def list_greetings(request: Request) -> HTMLResponse:
            return render(request, "greetings/list.html")
    """,
    "greeter-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeter\nVersion: 1\n",
    "greeter-1.dist-info/entry_points.txt": "[fleethook.engines]\ngreeter = greeter.engine:ENGINE\n",
}


@pytest.fixture
def distribution(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
    return tmp_path


def run(distribution: Path, code: str) -> str:
    """Run Python code in a process that has the distribution on its path, and return the output."""
    prelude = f"import sys\nsys.path[:0] = [{str(distribution)!r}, {str(ROOT)!r}]\n"
    command = [sys.executable, "-c", prelude + dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=NET, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


CREATE = """
    import asyncio, json
    from pathlib import Path
    from fleethook.app import create_app
    from fleethook.settings import Settings
    from tests.asgi_client import call

    REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": {}}}
"""


def test_the_server_has_its_route_setting_index_check_and_metric(distribution: Path) -> None:
    code = (
        CREATE
        + """
    import os

    async def main():
        os.environ["FLEETHOOK_GREETING"] = "good day"
        app = create_app(Settings(), log=None)
        app.store.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": {"team": "web"}}})
        async with app.router.lifespan_context(app):
            answer = await call(app, "/greet", json.dumps(REVIEW).encode())
            print(answer.json()["response"]["warnings"])
            print([one.detail for one in app.checks() if one.name == "greeter"])
            print("greeter_greetings 7.0" in app.metrics.exposition("")[0].decode())
            await asyncio.sleep(0)
            print(app.engines["greeter"].ran, "/greet" in app.openapi()["paths"])

    asyncio.run(main())
    """
    )
    assert run(distribution, code).splitlines() == ["['good day']", "['1 teams']", "True", "1 True"]


def test_the_leader_does_its_task_and_the_source_follows_its_kind(distribution: Path) -> None:
    code = (
        CREATE
        + """
    from fleethook.cli.serve.serve import needs_leader
    from fleethook.server.engine_server import Leadership

    app = create_app(Settings(kubeconfig=Path("k"), engines=["greeter"]), log=None)
    print(needs_leader(app), list(app.engines), [one.name for one in app.cluster.source.parts()])
    asyncio.run(app.engines["greeter"].lead(Leadership(None, lambda: b"", None)))
    print(app.engines["greeter"].led)
    """
    )
    assert run(distribution, code).splitlines() == ["True ['greeter'] ['namespaces']", "1"]


def test_the_command_line_has_its_command(distribution: Path) -> None:
    code = "from fleethook.cli.command_line import run_command\nrun_command({!r})\n"
    assert run(distribution, code.format(["greet"])) == "hello"
    assert "greet  Print a greeting." in run(distribution, code.format(["--help"]))


def test_its_webhook_is_registered(distribution: Path) -> None:
    code = """
    from fleethook.cluster.registration.webhook_configurations import service_of, webhook_configurations

    for one in webhook_configurations(service_of("a/b"), engines=["greeter"]):
        print(one["kind"], [webhook["name"] for webhook in one["webhooks"]])
    """
    assert run(distribution, code) == "ValidatingWebhookConfiguration ['pods.greeter.example.org']"


def test_the_console_has_its_page_in_the_navigation(distribution: Path) -> None:
    code = """
    import asyncio
    from tests.console.visits import console_of, visit

    answer = asyncio.run(visit(console_of(), "/greetings"))
    print(answer.status, b"<h1>Greetings</h1>" in answer.body, b'<a href="/greetings" aria-current' in answer.body)
    """
    assert run(distribution, code) == "200 True True"
