"""Cases drawn at random, the same in every run."""

import random
from collections.abc import Iterator

from patches import CONTAINER, POD
from shapes import JSONObject, container, existing, node_pools, operation, pod_template, subject, template, tweak
from written import case

_SEED = 17
_LABELS = ({}, {"region": "east"}, {"region": "north"}, {"region": "east", "tier": "cloud"}, {"tier": "edge"})
_NAMES = ("app", "sidecar", "agent")


def drawn_cases(count: int) -> Iterator[JSONObject]:
    for number in range(count):
        yield _Draw(random.Random(f"{_SEED}-{number}")).case(number)


class _Draw:
    """One case; everything is drawn from one generator."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._pools = {f"pool-{n}": source.choice(_LABELS) for n in range(source.randint(1, 6))}
        self._pool = source.choice(list(self._pools))

    def case(self, number: int) -> JSONObject:
        kind = self._source.choice(("Deployment", "Deployment", "StatefulSet"))
        containers = [self._container(name) for name in _NAMES[: self._source.randint(1, 3)]]
        tweaks = [self._tweak(containers) for _ in range(self._source.randint(0, 4))]
        listed = self._source.sample([*self._pools, "gone"], self._source.randint(0, len(self._pools)))
        selector = self._source.choice((None, None, {}, self._selector()))
        made = subject(kind, self._template(kind, containers), *tweaks, pools=listed, selector=selector)
        present = existing(kind, self._pool) if self._chance(0.4) else None
        pools = node_pools(**self._pools)
        return case(f"drawn-{number}-{kind.lower()}", made, self._pool, nodePools=pools, existing=present)

    def _chance(self, likely: float) -> bool:
        return self._source.random() < likely

    def _selector(self) -> JSONObject:
        expression = {"key": "region", "operator": self._source.choice(("Exists", "DoesNotExist"))}
        listed = {"key": "tier", "operator": self._source.choice(("In", "NotIn")), "values": ["edge"]}
        labels = {"region": self._source.choice(("east", "north"))}
        return self._source.choice(
            ({"matchLabels": labels}, {"matchExpressions": [expression]}, {"matchExpressions": [listed]})
        )

    def _template(self, kind: str, containers: list[JSONObject]) -> JSONObject:
        spec: JSONObject = {
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "conf", "configMap": {"name": "conf"}}]
        }
        if self._chance(0.4):
            spec["initContainers"] = [self._container(self._source.choice(("prepare", "app")))]
        if self._chance(0.5):
            spec["nodeSelector"] = {"disk": "ssd"}
        if self._chance(0.5):
            spec["tolerations"] = [{"key": "edge", "operator": "Exists", "effect": "NoSchedule"}]
        metadata = {"labels": {"of": "template"}, "annotations": {"note": "template"}} if self._chance(0.5) else None
        members: JSONObject = {
            "replicas": self._source.choice((None, 0, 1, 3)),
            "minReadySeconds": self._source.choice((None, 5)),
        }
        if kind == "Deployment" and self._chance(0.3):
            members["strategy"] = {"type": "Recreate"}
        made: JSONObject = template(kind, pod_template(*containers, **spec), metadata=metadata, **members)
        return made

    def _container(self, name: str) -> JSONObject:
        made = container(name)
        if self._chance(0.6):
            made["env"] = [{"name": f"E{n}", "value": str(n)} for n in range(self._source.randint(1, 3))]
        if self._chance(0.4):
            made["resources"] = {"limits": {"cpu": "2"}, "requests": {"cpu": "500m", "memory": "64Mi"}}
        if self._chance(0.5):
            made["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        if self._chance(0.4):
            made["args"] = ["--a", "--b", "--c"][: self._source.randint(1, 3)]
        return made

    def _tweak(self, containers: list[JSONObject]) -> JSONObject:
        members: JSONObject = {}
        if self._chance(0.4):
            members["replicas"] = self._source.randint(0, 9)
        if self._chance(0.5):
            name = self._source.choice((*_NAMES, "prepare"))
            members["containerImages"] = [{"name": name, "targetImage": f"{name}:{self._source.randint(2, 9)}"}]
        if self._chance(0.6):
            members["patches"] = [self._operation(containers) for _ in range(self._source.randint(1, 3))]
        pools = self._source.choice((None, [self._pool], [self._pool, "gone"], list(self._pools)))
        selector = self._source.choice((None, {}, self._selector()))
        return tweak(pools, selector, **members)

    def _operation(self, containers: list[JSONObject]) -> JSONObject:
        index = self._source.randrange(len(containers))
        at, one = f"{POD}/containers/{index}", containers[index]
        env = {"name": "POOL", "value": "in {{nodepool-name}}"}
        possible = [
            operation("replace", f"{at}/image", f"{{{{nodepool-name}}}}:{self._source.randint(1, 9)}"),
            operation("add", "/spec/template/metadata/annotations", {"pool": "{{nodepool-name}}"}),
            operation("add", "/spec/template/metadata/labels/pool", "{{nodepool-name}}"),
            operation("add", f"{POD}/nodeSelector/zone", "z"),
            operation("replace", f"{POD}/nodeSelector", {"zone": "z"}),
            operation("remove", f"{POD}/volumes/{self._source.randint(0, 1)}"),
            operation("replace", f"{POD}/volumes/0", {"name": "data", "hostPath": {"path": "/{{nodepool-name}}"}}),
            operation("add", f"{POD}/volumes/-", {"name": "more", "secret": {"secretName": "s"}}),
            operation("add", f"{POD}/containers/-", container("late", env=[env])),
            operation("replace", "/spec/replicas", self._source.randint(0, 9)),
            operation("add", f"{POD}/hostNetwork", value)
            if (value := self._chance(0.5))
            else operation("remove", "/spec/replicas"),
            operation("add", f"{at}/env", [env]),
            operation("add", f"{CONTAINER}/imagePullPolicy", "Never"),
        ]
        if "env" in one:
            possible += [
                operation("add", f"{at}/env/-", env),
                operation("add", f"{at}/env/0", env),
                operation("remove", f"{at}/env/0"),
                operation("replace", f"{at}/env/0/value", "other"),
            ]
        if "args" in one:
            possible += [
                operation("remove", f"{at}/args/0"),
                operation("add", f"{at}/args/-", "--pool={{nodepool-name}}"),
            ]
        return self._source.choice(possible)
