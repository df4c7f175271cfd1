"""Typical Lua scripts for Karmada, with the arguments of their calls."""

from typing import Any, NamedTuple

RETAIN = """
function Retain(desiredObj, observedObj)
  desiredObj.spec.replicas = observedObj.spec.replicas
  if observedObj.spec.paused ~= nil then desiredObj.spec.paused = observedObj.spec.paused end
  for i, container in ipairs(desiredObj.spec.template.spec.containers) do
    local running = observedObj.spec.template.spec.containers[i]
    if running ~= nil and running.name == container.name then container.resources = running.resources end
  end
  return desiredObj
end
"""
AGGREGATE = """
function AggregateStatus(desiredObj, statusItems)
  local status = {replicas = 0, readyReplicas = 0, conditions = {}}
  for _, item in ipairs(statusItems) do
    if item.status ~= nil then
      status.replicas = status.replicas + (item.status.replicas or 0)
      status.readyReplicas = status.readyReplicas + (item.status.readyReplicas or 0)
      for _, condition in ipairs(item.status.conditions or {}) do
        if condition.status ~= "True" then
          local message = item.clusterName .. ": " .. condition.message
          table.insert(status.conditions, {type = condition.type, status = condition.status, message = message})
        end
      end
    end
  end
  desiredObj.status = status
  return desiredObj
end
"""
HEALTH = "function InterpretHealth(o) return o.status.replicas == o.spec.replicas end"


class Script(NamedTuple):
    """A script, the name of the function to call, and its arguments."""

    title: str
    source: str
    function: str
    arguments: tuple[Any, ...]


def deployment(replicas: int) -> dict[str, Any]:
    """Return a Deployment of 5.7 KB."""
    container = {
        "image": "registry.example.com/shop/web:1.27.3",
        "env": [{"name": f"SETTING_{i}", "value": "v" * 24} for i in range(12)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {f"label-{i}": "v" * 16 for i in range(10)},
                     "annotations": {f"example.com/annotation-{i}": "v" * 60 for i in range(14)}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                 "template": {"metadata": {"labels": {"app": "web"}},
                              "spec": {"containers": [{"name": f"c{i}", **container} for i in range(4)]}}},
        "status": {"replicas": replicas, "observedGeneration": 4},
    }  # fmt: skip


def _items(clusters: int) -> list[dict[str, Any]]:
    return [
        {"clusterName": f"member-{i}", "health": "Healthy", "applied": True,
         "status": {"replicas": 3, "readyReplicas": 2, "observedGeneration": 4, "conditions": [
             {"type": "Ready", "status": "False" if i % 5 else "True", "message": "not all is well"},
             {"type": "Synced", "status": "True", "message": "yes"}]}}
        for i in range(clusters)
    ]  # fmt: skip


SCRIPTS = (
    Script("Retain, a Deployment", RETAIN, "Retain", (deployment(3), deployment(7))),
    Script("AggregateStatus, 100 clusters", AGGREGATE, "AggregateStatus", (deployment(3), _items(100))),
    Script("InterpretHealth", HEALTH, "InterpretHealth", (deployment(3),)),
)
