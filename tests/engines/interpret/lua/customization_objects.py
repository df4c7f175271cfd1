"""Builds ConfigMaps and ResourceInterpreterCustomizations with scripts."""

from fleethook.model.json import JSONObject


def config_map(text: str, *, name: str = "karmada-config", namespace: str = "karmada-system") -> JSONObject:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"retention.customizations": text}}


def retention(line: str) -> str:
    return f"apiVersion: example.com/v1\nkind: Foo\nretention.lua: |\n  {line}\n"


def customization(name: str, **scripts: str) -> JSONObject:
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": name},
        "spec": {
            "target": {"apiVersion": "example.com/v1", "kind": "Foo"},
            "customizations": {member: {"luaScript": script} for member, script in scripts.items()},
        },
    }  # fmt: skip
