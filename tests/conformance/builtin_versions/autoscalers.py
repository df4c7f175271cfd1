"""HorizontalPodAutoscalers that Kubernetes' fuzzers do not draw: every kind of metric, and annotations of any content."""

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

_QUANTITIES = ("0", "1", "100m", "1500m", "2Gi", "0.5", "1e3", "-3")
_ANNOTATION = "autoscaling.alpha.kubernetes.io/"
_SELECTORS = (
    {},
    {"matchLabels": {"b": "<2>", "a": "1"}},
    {"matchExpressions": [{"operator": "In", "key": "a", "values": ["&"]}, {"key": "b", "operator": "Exists"}]},
)
# Texts of annotations that somebody else wrote.
_ODD = (
    "", "null", "[]", "{}", "[null]", "[{}]", "[1]", "5", "{", '"x"', '[{"type":"Pods","pods":{}}]',
    '[{"type":"External","external":{"metricName":"m","targetValue":"1500m"}}]',
    '[{"type":"External","external":{"metricName":"m","targetAverageValue":2}}]',
    '[{"type":"Object","object":{"target":{},"metricName":"m","targetValue":"0","averageValue":"1"}}]',
    '[{"type":"Object","object":{"target":{"kind":"K"},"targetValue":"0.5","averageValue":"1"}}]',
    '[{"type":"Object","object":{"metricName":"m","currentValue":"1"}}]',
    '[{"type":"Resource","resource":{"name":"cpu","targetAverageUtilization":0}}]',
    '[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"x"}}]',
    '[{"type":"Resource","resource":{"name":"memory","targetAverageUtilization":"5"}}]',
    '[{"type":"Resource","resource":{"name":"memory","targetAverageUtilization":1.5}}]',
    '[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":3}}]',
    '[{"type":"ContainerResource","containerResource":{"name":"cpu","container":"c"}}]',
    '[{"type":5}]', '[{"type":"Ready","status":"True","reason":"","message":"m"}]',
    '[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"r"}]',
    '{"ScaleUp":{}}', '{"ScaleUp":null,"ScaleDown":{"Policies":[]}}',
    '{"ScaleDown":{"SelectPolicy":"Max","Policies":[{"Type":"Pods"}],"Tolerance":"100m"}}',
    '{"scaleUp":{"stabilizationWindowSeconds":5}}',
    '[{"TYPE":"Pods","Pods":{"metricname":"m","SELECTOR":{"matchlabels":{"Name":"Type"}}}}]',
)  # fmt: skip


class _Draw:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def some(self, **members: Any) -> dict[str, Any]:
        """Return each of these members or not."""
        return {name: value for name, value in members.items() if self._random.random() < 0.6}

    def quantity(self) -> str:
        return self._random.choice(_QUANTITIES)

    def metric(self) -> dict[str, Any]:
        return {"name": "<m>", **self.some(selector=self._random.choice(_SELECTORS))}

    def value(self) -> dict[str, Any]:
        number = self._random.randrange(0, 90)
        return self.some(value=self.quantity(), averageValue=self.quantity(), averageUtilization=number)

    def source(self, member: str) -> dict[str, Any]:
        """Return a metric of any kind; ``member`` is ``target`` or ``current``."""
        value = {member: {**({"type": "Value"} if member == "target" else {}), **self.value()}}
        described = {"kind": "K", "name": "n", **self.some(apiVersion="v1")}
        name = self._random.choice(["cpu", "memory"])
        kinds = {
            "Object": {"object": {"describedObject": described, "metric": self.metric(), **value}},
            "Pods": {"pods": {"metric": self.metric(), **value}},
            "Resource": {"resource": {"name": name, **value}},
            "ContainerResource": {"containerResource": {"name": name, "container": "c", **value}},
            "External": {"external": {"metric": self.metric(), **value}},
            "Resource ": {},
        }
        kind = self._random.choice(list(kinds))
        return {"type": kind.strip(), **kinds[kind]}

    def sources(self, member: str) -> list[dict[str, Any]]:
        return [self.source(member) for _ in range(self._random.randrange(0, 4))]

    def rules(self) -> dict[str, Any]:
        policies = [{"type": "Pods", "value": 1, "periodSeconds": 2}]
        return self.some(
            stabilizationWindowSeconds=self._random.randrange(0, 3), selectPolicy="Max", policies=policies,
            tolerance=self.quantity(),
        )  # fmt: skip

    def autoscaler(self) -> dict[str, Any]:
        behavior = self.some(scaleUp=self.rules(), scaleDown=self.rules())
        condition = {
            "type": "AbleToScale", "status": "True", **self.some(lastTransitionTime="2026-01-01T00:00:00Z", reason="R", message="<m>"),
        }  # fmt: skip
        spec = {"scaleTargetRef": {"kind": "D", "name": "d", **self.some(apiVersion="apps/v1")}, "maxReplicas": 3}
        spec |= self.some(minReplicas=1, metrics=self.sources("target"), behavior=behavior)
        status = {"desiredReplicas": 2, "currentMetrics": self.sources("current")}
        status |= self.some(
            conditions=[condition], currentReplicas=self._random.randrange(0, 2), observedGeneration=0,
            lastScaleTime="2026-01-01T00:00:00Z",
        )  # fmt: skip
        return _autoscaler("autoscaling/v2", spec, status, **self.some(annotations={"a": "<b>"}))


def _autoscaler(version: str, spec: Any, status: Any, **metadata: Any) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "default", **metadata}
    return {
        "apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec, "status": status,
    }  # fmt: skip


def _annotated() -> Iterator[dict[str, Any]]:
    names = ("metrics", "current-metrics", "conditions", "behavior")
    for text, name, more in itertools.product(_ODD, names, (False, True)):
        spec = {"scaleTargetRef": {"kind": "D", "name": "d"}, "maxReplicas": 3}
        spec |= {"targetCPUUtilizationPercentage": 50} if more else {}
        status = {"currentReplicas": 1, "desiredReplicas": 1} | (
            {"currentCPUUtilizationPercentage": 40} if more else {}
        )
        annotations = {f"{_ANNOTATION}{name}": text, **({"kept": "x"} if more else {})}
        yield _autoscaler("autoscaling/v1", spec, status, annotations=annotations)


def lines(count: int) -> str:
    """Return so many random autoscalers, and those with annotations, as JSON lines."""
    draw = _Draw(1)
    made = itertools.chain((draw.autoscaler() for _ in range(count)), _annotated())
    return "".join(f"{json.dumps(one)}\n" for one in made)
