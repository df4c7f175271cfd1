"""``--kcp-export`` with the answers of a real kcp v0.32.3 (see `tests/conformance/kcp_paths.yaml`)."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.kubernetes.watched_resources import APIBINDINGS, APIEXPORTS, KCP
from tests.cli.commands import Result, invoke
from tests.cli.conftest import WriteYAML
from tests.cli.fake_cluster import Cluster
from tests.engines.dispatch.builders import (
    WIDGETS,
    binding,
    configuration,
    export,
    in_cluster,
    namespace,
    webhook,
    widget,
)

WORKSPACE = "/clusters/root:provider"
CONSUMERS = "/services/apiexport/p/widgets/clusters/*"
SLICES = f"{WORKSPACE}/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
OWN = [
    "/api/v1/namespaces",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    *(f"/apis/admissionregistration.k8s.io/v1/{one}webhookconfigurations" for one in ("mutating", "validating")),
    *(one.path for one in KCP if one.name.startswith(("apiexports", "apiresourceschemas"))),
]


class Provider:
    """A kcp with the workspace of a provider, and one consumer."""

    def __init__(self, held: Cluster, config: Path, context: str) -> None:
        self.held, self.config, self.context = held, config, context
        document = yaml.safe_load(config.read_text())
        server = document["clusters"][0]["cluster"]
        slice_: dict[str, Any] = {
            "kind": "APIExportEndpointSlice",
            "metadata": {"name": "widgets"},
            "spec": {"export": {"name": "widgets"}},
            "status": {"endpoints": [{"url": f"{server['server']}/services/apiexport/p/widgets"}]},
        }
        server["server"] += WORKSPACE
        config.write_text(yaml.safe_dump(document))
        held.lists = {f"{WORKSPACE}{one}": [] for one in OWN} | {
            SLICES: [slice_],
            f"{CONSUMERS}{APIBINDINGS.path}": [binding(one, "p", "widgets.example.org") for one in ("c", "d")],
            f"{CONSUMERS}/apis/example.org/v1/widgets": [
                in_cluster(one, "example.org/v1", "Widget", "b") for one in ("c", "d")
            ],
            f"{WORKSPACE}{APIEXPORTS.path}": [export("p", "widgets.example.org")],
            f"{WORKSPACE}{OWN[3]}": [configuration("p", "validating", webhook())],
        }

    def explain(self, *options: str, name: str = "widgets") -> Result:
        given = ("--kcp-export", name, "--kubeconfig", str(self.config), "--context", self.context)
        return invoke(["explain", *given, *options])


@pytest.fixture
def provider(cluster: tuple[Cluster, tuple[str, ...]]) -> Provider:
    held, (_, config, _, context) = cluster
    return Provider(held, Path(config), context)


def test_a_provider_explains_the_request_of_a_consumer(provider: Provider, write_yaml: WriteYAML) -> None:
    result = provider.explain("--request", write_yaml("w.yaml", widget()), "--cluster", "c")
    assert (result.exit_code, "owner: p (bound)" in result.stdout) == (0, True), result.output
    assert "call   hooks/w.example.org/0" in result.stdout
    assert "note: Namespaces of consumers c, d are unknown" in result.stderr


def test_a_provider_gets_no_answer_about_webhooks_of_a_consumer(provider: Provider, write_yaml: WriteYAML) -> None:
    config_map = write_yaml("c.yaml", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    result = provider.explain("--request", config_map, "--cluster", "c")
    assert (result.exit_code, "this is no answer: the webhooks of c itself" in result.stdout) == (1, True), (
        result.output
    )
    result = provider.explain("--request", config_map, "--cluster", "p")
    assert (result.exit_code, "skip   hooks/w.example.org/0" in result.stdout) == (0, True), result.output
    # The workspace of an APIExport need not serve its resources, and its own bindings are not read.
    result = provider.explain("--request", write_yaml("w.yaml", widget()), "--cluster", "p")
    assert (result.exit_code, "this is no answer" in result.stdout) == (1, True), result.output


def test_all_missing_rights_of_a_provider_are_named_at_once(provider: Provider, write_yaml: WriteYAML) -> None:
    provider.held.refused = [(201, {"status": {"allowed": False}})] * 8
    result = provider.explain("--request", write_yaml("w.yaml", widget()), "--cluster", "c")
    assert result.exit_code == 2
    assert (
        '{apiGroups: ["apis.kcp.io"], resources: [apiexports, apiresourceschemas, apiexportendpointslices, '
        "apiexports/content], verbs: [list]}" in result.stderr
    )
    assert "webhookconfigurations" in result.stderr


def test_claimed_namespaces_of_consumers_are_read(provider: Provider, write_yaml: WriteYAML) -> None:
    selecting = webhook(namespaceSelector={"matchLabels": {"tier": "gold"}})
    provider.held.lists[f"{WORKSPACE}{OWN[3]}"] = [configuration("p", "validating", selecting)]
    provider.held.lists[f"{CONSUMERS}/api/v1/namespaces"] = [namespace("c", tier="gold")]
    result = provider.explain("--request", write_yaml("w.yaml", widget()), "--cluster", "c")
    assert (result.exit_code, "call   hooks/w.example.org/0" in result.stdout) == (0, True)
    # The other consumer has not accepted the claim.
    assert result.stderr.startswith("note: Namespaces of consumers d are unknown, because ")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({}, ""),
        ({"resources": ["*"]}, ""),
        ({"apiGroups": ["*"], "resources": ["*/*"]}, ""),
        ({"apiGroups": ["a.org"], "resources": ["*"]}, "none of the APIExport, which has widgets.example.org"),
    ],
)
def test_a_provider_tries_a_webhook_with_the_objects_of_all_consumers(
    provider: Provider, write_yaml: WriteYAML, rule: dict[str, Any], text: str
) -> None:
    new = webhook(clientConfig={"url": "https://127.0.0.1:1/w"}, rules=[{**WIDGETS, **rule}])
    file = write_yaml("hook.yaml", configuration("", "validating", new))
    given = ("--kcp-export", "widgets", "--kubeconfig", str(provider.config), "--context", provider.context)
    result = invoke(["webhook", "test", "-f", file, *given, "--operation", "CREATE"])
    assert [line for line in result.stdout.splitlines() if line.startswith("failed")] == [
        f"failed   CREATE Widget b in {one}, hooks/w.example.org" for one in ("c", "d") if not text
    ]
    assert text in result.stderr, result.output
    assert "by --resource" not in result.stderr
    provider.held.lists[f"{WORKSPACE}{APIEXPORTS.path}"] = []
    without = invoke(["webhook", "test", "-f", file, *given])
    assert (without.exit_code, "has no APIExport widgets" in without.stderr) == (2, True), without.output


def test_the_webhooks_of_a_provider_are_linted(provider: Provider) -> None:
    given = ("--kcp-export", "widgets", "--kubeconfig", str(provider.config), "--context", provider.context)
    provider.held.lists[f"{WORKSPACE}{OWN[3]}"] = [configuration("p", "validating", webhook(sideEffects="Some"))]
    result = invoke(["lint", *given])
    assert (result.exit_code, "sideEffects" in result.stdout) == (1, True), result.output


@pytest.mark.parametrize(
    ("name", "unserved", "text"),
    [
        ("gadgets", "", "APIExport gadgets has no virtual workspace in http://127.0.0.1:"),
        (
            "widgets",
            f"{CONSUMERS}{APIBINDINGS.path}",
            "is no virtual workspace of an APIExport: 404: 404 page not found",
        ),
        ("widgets", SLICES, "cannot read the consumers of APIExport widgets: 404: 404 page not found"),
    ],
)
def test_what_cannot_be_read_is_named(
    provider: Provider, write_yaml: WriteYAML, name: str, unserved: str, text: str
) -> None:
    provider.held.unserved = (unserved, unserved.replace("v1alpha2", "v1alpha1"))
    result = provider.explain("--request", write_yaml("w.yaml", widget()), "--cluster", "c", name=name)
    assert (result.exit_code, text in result.stderr) == (2, True), result.output


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--kcp", "--request", "w.yaml"), "give only one of --kcp-export and --kcp"),
        (("-f", "d", "--request", "w.yaml"), "give only one of -f and --kubeconfig"),
        (("--request", "w.yaml", "--cluster", "root:c"), "root:c cannot be followed, because no Workspace was read"),
    ],
)
def test_contradicting_options_are_refused(provider: Provider, options: tuple[str, ...], text: str) -> None:
    result = provider.explain(*options)
    assert (result.exit_code, text in result.stderr) == (2, True), result.output


def test_other_commands_do_not_take_the_rights_of_a_provider(provider: Provider) -> None:
    given = ("--kcp-export", "widgets", "--kubeconfig", str(provider.config), "--context", provider.context)
    result = invoke(["render", *given])
    assert (result.exit_code, result.stderr) == (2, "fleethook: --kcp-export is for commands about webhooks\n")


def test_a_context_without_a_workspace_is_named(
    cluster: tuple[Cluster, tuple[str, ...]], write_yaml: WriteYAML
) -> None:
    given = ("--kcp-export", "widgets", *cluster[1], "--request", write_yaml("w.yaml", widget()))
    result = invoke(["explain", *given, "--cluster", "c"])
    assert (result.exit_code, "names no workspace" in result.stderr) == (2, True), result.output
