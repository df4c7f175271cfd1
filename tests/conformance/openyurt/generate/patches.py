"""Patches of tweaks, by name: each operation on each kind of target, and patches that fail."""

from shapes import JSONObject, operation

POD = "/spec/template/spec"
CONTAINER = f"{POD}/containers/0"


def patch_operations() -> dict[str, list[JSONObject]]:
    secret = {"name": "data", "secret": {"secretName": "web"}}
    env = {"name": "POOL", "value": "{{nodepool-name}}"}
    return {
        "replace-scalar": [operation("replace", f"{CONTAINER}/image", "app:9")],
        "replace-number": [operation("replace", "/spec/replicas", 7)],
        "replace-null": [operation("replace", "/spec/replicas", None)],
        "replace-without-value": [operation("replace", "/spec/replicas")],
        "replace-map-merges": [operation("replace", f"{POD}/nodeSelector", {"disk2": "hdd"})],
        "replace-map-null": [operation("replace", f"{POD}/nodeSelector", None)],
        "replace-struct-merges": [operation("replace", f"{POD}/securityContext", {"runAsGroup": 1})],
        "replace-struct-null": [operation("replace", f"{POD}/securityContext", None)],
        "replace-missing": [operation("replace", f"{POD}/priorityClassName", "high")],
        "replace-missing-parent": [operation("replace", f"{POD}/dnsConfig/searches", ["a"])],
        "replace-list": [operation("replace", f"{CONTAINER}/args", ["--three"])],
        "replace-list-of-objects": [operation("replace", f"{CONTAINER}/env", [{"name": "Z", "value": "z"}])],
        "replace-list-null": [operation("replace", f"{CONTAINER}/env", None)],
        "replace-list-empty": [operation("replace", f"{CONTAINER}/env", [])],
        "replace-element": [operation("replace", f"{POD}/volumes/1", secret)],
        "replace-element-member": [operation("replace", f"{CONTAINER}/env/0/value", "9")],
        "replace-labels": [operation("replace", "/metadata/labels", {"only": "this"})],
        "replace-wrong-type": [operation("replace", "/spec/replicas", "many")],
        "replace-null-string": [operation("replace", f"{CONTAINER}/image", None)],
        "replace-null-struct": [operation("replace", f"{CONTAINER}/resources", None)],
        "replace-null-element": [operation("replace", f"{POD}/volumes/1", None)],
        "replace-null-list-of-objects": [operation("replace", f"{POD}/containers", None)],
        "replace-pod-labels": [operation("replace", "/spec/template/metadata/labels", {"app": "web", "only": "this"})],
        "replace-affinity": [operation("replace", f"{POD}/affinity", {"podAffinity": {}})],
        "replace-probe": [operation("replace", f"{CONTAINER}/livenessProbe", {"exec": {"command": ["true"]}})],
        "replace-limits": [operation("replace", f"{CONTAINER}/resources", {"limits": {"cpu": "3"}})],
        "replace-whole": [operation("replace", "", {})],
        "add-env": [operation("add", f"{CONTAINER}/env/-", env)],
        "add-env-list-missing": [
            operation("add", f"{POD}/containers/1/volumeMounts/-", {"name": "x", "mountPath": "/x"})
        ],
        "add-list": [operation("add", f"{POD}/containers/1/args", ["--pool={{nodepool-name}}"])],
        "add-at-index": [operation("add", f"{CONTAINER}/env/0", env)],
        "add-container-first": [operation("add", f"{POD}/containers/0", {"name": "first", "image": "first:1"})],
        "add-container-last": [operation("add", f"{POD}/containers/-", {"name": "last", "image": "last:1"})],
        "add-beyond": [operation("add", f"{CONTAINER}/env/9", env)],
        "add-negative-index": [operation("add", f"{CONTAINER}/env/-1", env)],
        "add-map-member": [operation("add", f"{POD}/nodeSelector/zone", "{{nodepool-name}}")],
        "add-escaped-member": [
            operation("add", "/spec/template/metadata/annotations/example.com~1pool", "{{nodepool-name}}")
        ],
        "add-annotation": [operation("add", "/metadata/annotations/note", "tweaked")],
        "add-without-value": [operation("add", f"{POD}/nodeSelector/zone")],
        "add-unknown-field": [operation("add", f"{POD}/noSuchField", 1)],
        "add-status": [operation("add", "/status/replicas", 3)],
        "add-nested-name": [
            operation("add", f"{POD}/volumes/-", {"name": "n", "configMap": {"name": "c-{{nodepool-name}}"}})
        ],
        "add-name-as-key": [operation("add", f"{POD}/nodeSelector", {"{{nodepool-name}}": "key"})],
        "name-in-path": [operation("add", f"{POD}/nodeSelector/{{{{nodepool-name}}}}", "path")],
        "other-placeholder": [operation("add", f"{POD}/nodeSelector/zone", "{{nodepool}} {{ nodepool-name }}")],
        "add-quantity": [operation("add", f"{CONTAINER}/resources/limits/cpu", "3000m")],
        "add-quantity-number": [operation("add", f"{CONTAINER}/resources/limits/cpu", 3)],
        "add-null-element": [operation("add", f"{CONTAINER}/env/-", None)],
        "add-null-member": [operation("add", f"{POD}/nodeSelector/zone", None)],
        "add-other-case": [operation("add", f"{POD}/HostNetwork", True)],
        "add-false": [operation("add", f"{POD}/hostNetwork", False), operation("add", f"{POD}/hostPID", True)],
        "add-empty-string": [operation("add", f"{CONTAINER}/env/0/value", "")],
        "add-wrong-type": [operation("add", f"{POD}/nodeSelector/zone", 1)],
        "add-existing-member": [operation("add", f"{CONTAINER}/resources", {"requests": {"cpu": "1"}})],
        "remove-member": [operation("remove", f"{POD}/terminationGracePeriodSeconds")],
        "remove-replicas": [operation("remove", "/spec/replicas")],
        "remove-map": [operation("remove", f"{POD}/nodeSelector")],
        "remove-map-member": [operation("remove", f"{POD}/nodeSelector/disk")],
        "remove-list": [operation("remove", f"{POD}/tolerations")],
        "remove-scalar-element": [operation("remove", f"{CONTAINER}/args/0")],
        "remove-container": [operation("remove", f"{POD}/containers/0")],
        "remove-last-container": [operation("remove", f"{POD}/containers/1")],
        "remove-volume": [operation("remove", f"{POD}/volumes/0")],
        "remove-env": [operation("remove", f"{CONTAINER}/env/0")],
        "remove-env-then-add": [operation("remove", f"{CONTAINER}/env/1"), operation("add", f"{CONTAINER}/env/-", env)],
        "remove-and-add-container": [
            operation("remove", f"{POD}/containers/1"),
            operation("add", f"{POD}/containers/-", {"name": "other", "image": "other:1"}),
        ],
        "remove-then-remove": [operation("remove", f"{CONTAINER}/args/1"), operation("remove", f"{CONTAINER}/args/0")],
        "remove-value-from": [operation("replace", f"{CONTAINER}/env/1", {"name": "B", "value": "2"})],
        "remove-missing": [operation("remove", f"{POD}/priorityClassName")],
        "remove-missing-element": [operation("remove", f"{POD}/volumes/9")],
        "remove-with-value": [operation("remove", f"{CONTAINER}/args/0", "ignored")],
        "remove-owner-label": [operation("remove", "/metadata/labels/apps.openyurt.io~1ref-yurtappset")],
        "replace-owner-label": [operation("replace", "/metadata/labels/apps.openyurt.io~1ref-yurtappset", "other")],
        "replace-pool-label": [operation("replace", "/metadata/labels/apps.openyurt.io~1pool-name", "other")],
        "replace-placement": [operation("replace", f"{POD}/nodeSelector/apps.openyurt.io~1nodepool", "other")],
        "replace-owner-references": [operation("replace", "/metadata/ownerReferences", [])],
        "replace-selector-label": [operation("replace", "/spec/selector/matchLabels/app", "other")],
        "no-leading-slash": [operation("replace", "spec/replicas", 3)],
        "volume-source": [
            operation("remove", f"{POD}/volumes/0/configMap"),
            operation("add", f"{POD}/volumes/0/emptyDir", {}),
        ],
        "add-then-change": [
            operation("add", f"{POD}/hostAliases", []),
            operation("add", f"{POD}/hostAliases/-", {"ip": "10.0.0.1", "hostnames": ["{{nodepool-name}}.example"]}),
            operation("replace", f"{POD}/hostAliases/0/ip", "10.0.0.2"),
        ],
        "unknown-operation": [operation("move", f"{CONTAINER}/image", "x")],
    }
