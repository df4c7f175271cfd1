"""The section Rules, with a file of rules, registrations and metrics."""

from pathlib import Path
from typing import Any

from fleethook.admission.decorators_and_files import load_rules
from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.cluster.registration.rule_webhooks_and_outage import build_rule_configurations
from fleethook.cluster.registration.webhook_configurations import ServiceReference
from fleethook.cluster.store import Store
from fleethook.console.console_server import create_console
from fleethook.console.metrics_and_lease import LeaseWatch, MetricsSampler, MetricsTarget, SamplerState
from fleethook.console.review_rates import Sample
from fleethook.engines.rules.pages.rules import RuleView, list_rule_lines
from fleethook.model.json import JSONObject
from tests.console.pages.reading import Page, get
from tests.console.visits import make_context, visit

OWNER = "/rules/validate/needs-owner"
DOCUMENTED = '''
from fleethook.admission import Denied, validate

@validate("apps/v1", "Deployment", namespace_selector={"matchLabels": {"team": "web"}}, match_conditions={"named": "true"})
def needs_owner(request):
    """Every Deployment names its owner.

    Ask the <platform> team.
    """
    raise Denied("no")

@validate("v1", "Pod")
def other(pod):
    """Decide about Pods."""
'''


def write(directory: Path, text: str = DOCUMENTED) -> Path:
    path = directory / "rules.py"
    path.write_text(text)
    return path


def register(path: Path) -> list[JSONObject]:
    reference = ServiceReference("ns", "fleethook")
    made = build_rule_configurations(load_rules([path]), reference, name="fleethook-rules", server="ns", exempt=())
    return [one for one in made if one.get("webhooks")]


def console_with(path: Path | None, *documents: JSONObject, **fields: Any) -> Any:
    rules = None
    if path is not None:
        rules = ManifestSource([path], Store())
        rules.load()
    context = make_context(*map(dict, documents), rules=rules, rule_files=(path,) if path else (), **fields)
    return create_console(context)


async def show(app: Any, path: str) -> Page:
    return await get(app, "/rules/rule", RuleView(path, {}).address.partition("?")[2])


async def test_the_list_has_documentation_kinds_and_policy(tmp_path: Path) -> None:
    page = await get(console_with(write(tmp_path)), "/rules")
    requests = "CREATE, UPDATE of deployments.apps, in namespaces with team=web"
    assert f"needs-owner Every Deployment names its owner. validates {requests}" in page.text
    assert "The console has no counts of their calls" in page.text
    assert "fleethook rules check" in page.text


async def test_the_page_of_a_rule_has_its_place_selectors_and_conditions(tmp_path: Path) -> None:
    app = console_with(write(tmp_path))
    page = await show(app, OWNER)
    for text in (
        "rules.py:4",
        "Ask the <platform> team.",
        "in namespaces with team=web",
        "Condition named",
        "refuses the object",
    ):
        assert text in page.text


async def test_a_rule_tells_whether_the_cluster_calls_it(tmp_path: Path) -> None:
    path = write(tmp_path)
    configurations = register(path)
    registered = await show(console_with(path, *configurations), OWNER)
    assert "ValidatingWebhookConfiguration fleethook-rules" in registered.text
    assert any(one.startswith("/dispatch/object?") for one in registered.addresses)
    assert "no cluster" in (await get(console_with(path), "/rules")).text
    without_file = await get(console_with(None, *configurations), "/rules")
    assert "needs-owner validates CREATE, UPDATE of deployments.apps" in without_file.text


async def test_a_rule_whose_server_has_stopped_is_not_shown_as_registered(tmp_path: Path) -> None:
    async def get_lease(_method: str, _path: str, **_rest: Any) -> Any:
        return {"spec": {"holderIdentity": ""}}

    path = write(tmp_path)
    lease = LeaseWatch(get_lease, "/{}".format, namespace="kube-system")
    page = await get(console_with(path, *register(path), lease=lease), "/rules")
    assert "registered, not answered: it has stopped" in page.text


async def test_a_console_without_rules_names_the_command_that_shows_them() -> None:
    page = await get(console_with(None, command_source="-f examples"), "/rules")
    assert "fleethook console -f examples --rules rules.py" in page.text


async def test_an_unknown_rule_does_not_exist(tmp_path: Path) -> None:
    assert (await visit(console_with(write(tmp_path)), "/rules/rule", query="path=/rules/validate/x")).status == 404


async def test_a_broken_file_keeps_its_former_rules_and_says_so(tmp_path: Path) -> None:
    path = write(tmp_path)
    rules = ManifestSource([path], Store())
    rules.load()
    app = create_console(make_context(rules=rules, rule_files=(path,)))
    path.write_text("import missing_module_of_rules\n")
    rules.load()
    page = await get(app, "/rules")
    assert "the file cannot be used, and its former rules stay" in page.text
    assert "rules.py:1: ModuleNotFoundError" in page.text
    assert "needs-owner" in page.text
    assert "ModuleNotFoundError" in (await get(app, "/attention")).text


async def test_the_names_of_rules_are_found(tmp_path: Path) -> None:
    assert RuleView(OWNER, {}).address in (await get(console_with(write(tmp_path)), "/search", "q=owner")).addresses


class FixedSampler(MetricsSampler):
    def __init__(self, sample: Sample) -> None:
        super().__init__(MetricsTarget("http://localhost/metrics"))
        self._sample = sample

    def find(self) -> SamplerState:
        return SamplerState(sampled_at=self._sample.time, reviews=self._sample.reviews)


async def test_metrics_count_calls(tmp_path: Path) -> None:
    counts = {(OWNER, "CREATE", "denied"): 2.0, (OWNER, "UPDATE", "errored"): 3.0, (OWNER, "CREATE", "allowed"): 4.0}
    app = console_with(write(tmp_path), sampler=FixedSampler(Sample(1.0, counts, {})))
    page = await show(app, OWNER)
    assert "Calls since the server started 9 Denied 2 Failed 3" in page.text
    assert "it failed in 3 of 9 reviews since the server started" in (await get(app, "/attention")).text


def rule(**fields: Any) -> RuleView:
    return RuleView(OWNER, {}, place="rules.py:4")._replace(**fields)


def test_a_rule_that_no_configuration_calls_never_fires() -> None:
    [line] = list_rule_lines([rule()], has_cluster=True)
    assert (line.severity, line.reason) == ("warning", "it never fires: no webhook configuration calls it")
    assert not [*list_rule_lines([rule()], has_cluster=False)]
