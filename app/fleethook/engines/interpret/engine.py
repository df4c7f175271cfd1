"""The engine that interprets resources for Karmada."""

# ruff: noqa: PLC0415 - each command reads this record, so it imports as little as possible

from typing import TYPE_CHECKING, Final

from fleethook.engine import CommandSpec, Engine, Probe

if TYPE_CHECKING:
    from fleethook.cluster.registration.webhook_configurations import OwnWebhook

_FOLDER: Final = "fleethook.engines.interpret"

ENGINE: Final = Engine(
    name="interpret",
    order=30,
    system="Karmada",
    server=f"{_FOLDER}.interpret_server:InterpretServer",
    resources=f"{_FOLDER}.interpret_server:list_resources",
    indexes=f"{_FOLDER}.webhooks.interpreter_webhooks_and_registration:INDEXES",
    settings=f"{_FOLDER}.interpret_settings:InterpretSettings",
    commands={
        "interpret": CommandSpec(
            f"{_FOLDER}.commands.interpret:interpret",
            "Run, test and convert resource interpreters: Lua, webhooks, Python, native.",
        ),
    },
    webhooks=f"{_FOLDER}.engine:list_webhooks",
    probe=f"{_FOLDER}.engine:make_probe",
    lint=f"{_FOLDER}.commands.interpreter_lint:lint_interpreters",
    page=f"{_FOLDER}.pages.interpreters:PAGE",
)
"""All that the engine contributes."""


def list_webhooks() -> "tuple[OwnWebhook, ...]":
    """Return the webhooks for the configurations of interpreters, in their order in a configuration."""
    from fleethook.cluster.registration import paths
    from fleethook.cluster.registration.webhook_configurations import NOT_DELETING, VALIDATING, OwnWebhook
    from fleethook.model import karmada

    # kube-apiserver sends no ConfigMap of another name, so these do not depend on this server.
    karmada_config = {
        "name": "is-karmada-config", "expression": f"object.metadata.name == '{karmada.CONFIG_MAP_NAME}'"
    }  # fmt: skip
    return (
        OwnWebhook(
            "rules.hooks.interpret.fleethook.io", VALIDATING, paths.VALIDATE_HOOKS, karmada.GROUP, karmada.VERSION,
            ("resourceexploringwebhookconfigurations", "resourceinterpreterwebhookconfigurations"), {}, (NOT_DELETING,),
            "Cluster",
        ),
        OwnWebhook(
            "rules.customizations.interpret.fleethook.io", VALIDATING, paths.VALIDATE_CUSTOMIZATION, karmada.GROUP,
            karmada.VERSION, ("resourceinterpretercustomizations",), {}, (NOT_DELETING,), "Cluster",
        ),
        OwnWebhook(
            "karmada-config.interpret.fleethook.io", VALIDATING, paths.VALIDATE_CONFIG_MAP, "", "v1",
            ("configmaps",), {}, (NOT_DELETING, karmada_config),
        ),
    )  # fmt: skip


def make_probe(name: str) -> Probe:
    """Return a dry run of a customization with this name and a script that does not compile."""
    from fleethook.model.karmada import GROUP, VERSION

    body = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": name},
        "spec": {
            "target": {"apiVersion": "fleethook.io/v1", "kind": "Doctor"},
            "customizations": {"healthInterpretation": {"luaScript": "function"}},
        },
    }
    webhook = "rules.customizations.interpret.fleethook.io"
    return Probe(webhook, "resourceinterpretercustomizations", namespaced=False, body=body)
