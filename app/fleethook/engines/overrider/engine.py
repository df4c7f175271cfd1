"""The engine that renders workloads for each node pool, as YurtAppOverriders describe."""

from typing import Final

from fleethook.engine import Engine, EngineCommand

_FOLDER: Final = "fleethook.engines.overrider"

ENGINE: Final = Engine(
    name="overrider",
    order=10,
    server=f"{_FOLDER}.overrider_server:OverriderServer",
    resources=f"{_FOLDER}.overrider_server:list_resources",
    indexes=f"{_FOLDER}.subject.binding:INDEXES",
    settings=f"{_FOLDER}.overrider_settings:OverriderSettings",
    commands={
        "render": EngineCommand(
            f"{_FOLDER}.commands.render:render", "Print the workload of every node pool, before you apply anything."
        ),
        "diff": EngineCommand(
            f"{_FOLDER}.commands.diff:diff",
            "Print the effect of applying files on running workloads: rollouts, scales, creations and deletions.",
        ),
        "convert": EngineCommand(
            f"{_FOLDER}.commands.convert:convert_command",
            "Convert v1alpha1 YurtAppSets and YurtAppDaemons with their overriders to v1beta1 YurtAppSets with tweaks.",
        ),
        "compile": EngineCommand(
            f"{_FOLDER}.commands.compile:compile_command",
            "Compile overriders to MutatingAdmissionPolicies, which kube-apiserver applies without a webhook.",
        ),
        "policies": EngineCommand(
            f"{_FOLDER}.commands.compile:policies",
            "Manage the MutatingAdmissionPolicies of overriders in a cluster.",
        ),
    },
    page=f"{_FOLDER}.pages.overriders:PAGE",
)
"""All that the engine contributes."""
