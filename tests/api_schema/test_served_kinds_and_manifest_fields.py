"""Kinds and versions that no supported apiserver serves."""

from typing import Any

import pytest
import yaml

from fleethook.api_schema import check_kind, check_object, read_definitions
from fleethook.api_schema.served_kinds_and_manifest_fields import load_served
from fleethook.model.json import JSONObject


def named(api_version: str, kind: str, cluster: str = "") -> JSONObject:
    annotations = {"annotations": {"kcp.io/cluster": cluster}} if cluster else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", **annotations}}


def define(group: str, kind: str, *versions: str) -> JSONObject:
    served = [{"name": one, "served": one != "v0"} for one in versions]
    spec = {"group": group, "names": {"kind": kind}, "versions": served}
    return named("apiextensions.k8s.io/v1", "CustomResourceDefinition") | {"spec": spec}


HOOKS = "ValidatingWebhookConfiguration"
REGISTRATION = "admissionregistration.k8s.io"
CUSTOMIZATION = "ResourceInterpreterCustomization"


@pytest.mark.parametrize(
    ("api_version", "kind", "finding"),
    [
        (f"{REGISTRATION}/v1", HOOKS, ""),
        (f"{REGISTRATION}/v1beta1", HOOKS, f"error apiVersion: Kubernetes 1.22 removed {HOOKS} of {REGISTRATION}/v1beta1: write {REGISTRATION}/v1"),
        (f"{REGISTRATION}/v1alpha1", HOOKS, f"error apiVersion: {HOOKS} has no version 'v1alpha1'; write {REGISTRATION}/v1"),
        (f"{REGISTRATION}/v2", HOOKS, f"error apiVersion: {HOOKS} has no version 'v2'; write {REGISTRATION}/v1"),
        (f"{REGISTRATION}/", HOOKS, f"error apiVersion: {HOOKS} has no version ''; write {REGISTRATION}/v1"),
        (f"{REGISTRATION}/v1", "ValidatingWebhookConfig", f"error kind: {REGISTRATION} has no kind 'ValidatingWebhookConfig'; did you mean {HOOKS}?"),
        ("admission.k8s.io/v1", HOOKS, f"error apiVersion: {HOOKS} is in {REGISTRATION}/v1, not in 'admission.k8s.io/v1'"),
        (f"{REGISTRATION}/v1/x", HOOKS, f"error apiVersion: {HOOKS} is in {REGISTRATION}/v1, not in '{REGISTRATION}/v1/x'"),
        ("v1", HOOKS, f"error apiVersion: {HOOKS} is in {REGISTRATION}/v1, not in 'v1'"),
        ("apps/v1", "Deployment", ""),
        ("extensions/v1beta1", "Deployment", "error apiVersion: Kubernetes 1.16 removed Deployment of extensions/v1beta1: write apps/v1"),
        ("apps", "Deployment", "error apiVersion: Deployment is in apps/v1, not in 'apps'"),
        ("apps/v1", "Deploymnet", "error kind: apps has no kind 'Deploymnet'; did you mean Deployment?"),
        ("apps.kruise.io/v1beta1", "StatefulSet", ""),
        ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition", "error apiVersion: Kubernetes 1.22 removed CustomResourceDefinition of apiextensions.k8s.io/v1beta1: write apiextensions.k8s.io/v1"),
        ("policy/v1beta1", "PodSecurityPolicy", "warning kind: policy has no kind 'PodSecurityPolicy' in Kubernetes 1.36"),
        ("scheduling.k8s.io/v1alpha9", "PodGroup", "warning apiVersion: PodGroup has no version 'v1alpha9'; write scheduling.k8s.io/v1alpha2"),
        # Kubernetes 1.31, which is supported, serves this version; 1.36 does not.
        ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", ""),
        ("gateway.networking.k8s.io/v1", "HTTPRoute", ""),
        ("builtin", "LabelTransformer", ""),
        ("apis.kcp.io/v1alpha1", "APIBinding", ""),
        ("apis.kcp.io/v1alpha2", "APIExport", ""),
        ("apis.kcp.io/v1", "APIBinding", "error apiVersion: APIBinding has no version 'v1'; write apis.kcp.io/v1alpha1 or apis.kcp.io/v1alpha2"),
        ("tenancy.kcp.io/v1alpha1", "WorkspaceType", ""),
        ("example.org/v1", "Workspace", ""),
        ("config.karmada.io/v1beta1", CUSTOMIZATION, f"error apiVersion: {CUSTOMIZATION} has no version 'v1beta1'; write config.karmada.io/v1alpha1"),
        ("config.karmada.io/v1alpha1", f"{CUSTOMIZATION}s", f"error kind: config.karmada.io has no kind '{CUSTOMIZATION}s'; did you mean {CUSTOMIZATION}?"),
        ("policy.karmada.io/v1alpha1", CUSTOMIZATION, f"error apiVersion: {CUSTOMIZATION} is in config.karmada.io/v1alpha1, not in 'policy.karmada.io/v1alpha1'"),
        ("apps.openyurt.io/v1beta1", "YurtAppOverrider", "error apiVersion: YurtAppOverrider has no version 'v1beta1'; write apps.openyurt.io/v1alpha1"),
        ("apps.openyurt.io/v1beta1", "YurtStaticSet", "error apiVersion: YurtStaticSet has no version 'v1beta1'; write apps.openyurt.io/v1alpha1"),
        ("apps.openyurt.io/v1alpha1", "YurtIngress", ""),
        ("karpenter.sh/v1", "NodePool", ""),
    ],
)  # fmt: skip
def test_an_unserved_kind_or_version_is_a_finding(api_version: str, kind: str, finding: str) -> None:
    found = check_kind(named(api_version, kind))
    assert (f"{found.level} {found.field}: {found.message}" if found else "") == finding


def test_definitions_of_the_files_decide_about_their_kind_in_their_cluster() -> None:
    sets = define("apps.openyurt.io", "YurtAppSet", "v0", "v1", "v2")
    definitions = read_definitions([sets, define("example.org", "Widget", "v1")])
    assert check_kind(named("apps.openyurt.io/v1", "YurtAppSet"), definitions) is None
    for version in ("v0", "v1beta1"):
        found = check_kind(named(f"apps.openyurt.io/{version}", "YurtAppSet"), definitions)
        assert found is not None
        text = f"YurtAppSet has no version '{version}'; write apps.openyurt.io/v1 or apps.openyurt.io/v2"
        assert found.message == text
    assert check_kind(named("apps.openyurt.io/v1", "YurtAppSet", cluster="other"), definitions) is not None
    assert check_kind(named("example.org/v2", "Widget"), definitions) is not None


def test_each_named_schema_exists() -> None:
    served = load_served()
    names = {name for versions in served.names.values() for name in versions.values()} - {""}
    assert len(names) > 100
    assert names <= served.definitions.keys()


WEBHOOK = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: a}
webhooks:
- name: a.example.org
  clientConfig: {service: {name: hook, namespace: hooks, path: /v, port: 443}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE], scope: Namespaced}]
  namespaceSelector: {matchLabels: {team: web}, matchExpressions: [{key: a, operator: In, values: [b]}]}
  matchConditions: [{name: a, expression: "true"}]
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v1beta1, served: false, storage: false}
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
              cpu: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
              labels: {type: object, additionalProperties: {type: string}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: object}}}
              pipelines: {type: array, x-kubernetes-preserve-unknown-fields: true, items: {type: object}}
              template: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object}}}
"""
WIDGET = """
apiVersion: example.org/v1
kind: Widget
metadata: {name: a}
spec: {size: 1, cpu: 100m, labels: {a: b}, free: {any: 1}, pipelines: [{any: 1}], template: {kind: A, metadata: {}}}
"""
DAEMON = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  replicas: 1
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      initContainers: [{name: sidecar, image: b, restartPolicy: Always}]
      containers: [{name: a, image: b, resources: {limits: {cpu: 0.5, memory: 1Gi}}, env: [{name: A, value: b}]}]
"""
SETS = {
    "v1alpha1": """
apiVersion: apps.openyurt.io/v1alpha1
kind: YurtAppSet
metadata: {name: a}
spec:
  selector: {matchLabels: {a: b}}
  workloadTemplate: {deploymentTemplate: {metadata: {labels: {a: b}}, spec: {template: {spec: {containers: []}}}}}
  topology: {pools: [{name: hangzhou, replicas: 1, patch: {spec: {any: 1}}}]}
""",
    "v1beta1": """
apiVersion: apps.openyurt.io/v1beta1
kind: YurtAppSet
metadata: {name: a}
spec:
  pools: [hangzhou]
  workload:
    workloadTemplate: {statefulSetTemplate: {spec: {}}}
    workloadTweaks: [{pools: [hangzhou], tweaks: {replicas: 2, patches: [{path: /a, operation: add, value: 1}]}}]
""",
}
OTHERS = {
    "customization": """
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: a}
spec:
  target: {apiVersion: example.org/v1, kind: Widget}
  customizations: {retention: {luaScript: a}, statusReflection: {luaScript: b}}
""",
    "binding": """
apiVersion: apis.kcp.io/v1alpha2
kind: APIBinding
metadata: {name: a, annotations: {kcp.io/cluster: ws}}
spec: {reference: {export: {path: root, name: widgets}}, permissionClaims: []}
""",
    "export": """
apiVersion: apis.kcp.io/v1alpha2
kind: APIExport
metadata: {name: a}
spec: {resources: [{group: example.org, name: widgets, schema: v1.widgets.example.org, storage: {crd: {}}}]}
""",
    "exploring": """
apiVersion: config.karmada.io/v1alpha1
kind: ResourceExploringWebhookConfiguration
metadata: {name: a}
webhooks: [{name: a.b.c, clientConfig: {url: "https://a"}, exploreReviewVersions: [v1alpha1], failurePolicy: Ignore}]
""",
    "karmada": """
apiVersion: operator.karmada.io/v1alpha1
kind: Karmada
metadata: {name: a, namespace: b}
spec:
  components: {etcd: {local: {imageTag: "3"}}}
  crdTarball: {crdDownloadPolicy: Never, httpSource: {url: "https://a", sha256: b}}
""",
    "policy": """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: a}
spec: {resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}], placement: {clusterAffinity: {clusterNames: [a]}}}
""",
    "node pool": """
apiVersion: apps.openyurt.io/v1beta2
kind: NodePool
metadata: {name: a}
spec: {type: Edge, labels: {a: b}, hostNetwork: true}
""",
    "unknown group": """
apiVersion: example.com/v1
kind: Gadget
metadata: {name: a, lables: {}}
sepc: {}
""",
    "applied by kubectl": """
apiVersion: v1
kind: Namespace
metadata:
  name: a
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}
  managedFields: [{manager: kubectl, operation: Apply, fieldsV1: {"f:metadata": {}}}]
  creationTimestamp: null
status: {phase: Active}
""",
    "patch of kustomize": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec: {template: {spec: {$setElementOrder/containers: [], containers: [{name: a, $patch: delete}]}}}
""",
    "variables of Flux": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec: {replicas: "${REPLICAS}"}
""",
}
DOCUMENTS = {"webhook": WEBHOOK, "widget": WIDGET, "deployment": DAEMON, **SETS, **OTHERS}


def read(text: str) -> dict[str, Any]:
    return yaml.load(text, yaml.CSafeLoader)  # type: ignore[no-any-return]


def find(text: str) -> list[str]:
    found = check_object(read(text), read_definitions([read(DEFINITION)]))
    return [f"{one.level} {one.code} {one.field}: {one.message}" for one in found]


@pytest.mark.parametrize("name", [*DOCUMENTS, "definition"])
def test_a_valid_object_has_no_finding(name: str) -> None:
    assert find({**DOCUMENTS, "definition": DEFINITION}[name]) == []


FIELDS_OF_RULES = "admissionReviewVersions, clientConfig, failurePolicy, matchConditions, matchPolicy, name, namespaceSelector, objectSelector, rules, sideEffects, timeoutSeconds"


@pytest.mark.parametrize(
    ("name", "written", "instead", "finding"),
    [
        ("webhook", "failurePolicy", "failurepolicy", "error unknown-field webhooks[0].failurepolicy: is not a field of ValidatingWebhook; did you mean failurePolicy?"),
        ("webhook", "sideEffects: None", "timeout: 5", "error unknown-field webhooks[0].timeout: is not a field of ValidatingWebhook; did you mean timeoutSeconds?"),
        ("webhook", "sideEffects: None", "reinvocationPolicy: Never", f"error unknown-field webhooks[0].reinvocationPolicy: is not a field of ValidatingWebhook; the fields are {FIELDS_OF_RULES}"),
        ("webhook", "{matchLabels: {team: web}, ", "{team: web, ", "error unknown-field webhooks[0].namespaceSelector.team: is not a field of LabelSelector: put it into matchLabels"),
        ("webhook", "sideEffects: None", "matchLabels: {}", "error unknown-field webhooks[0].matchLabels: is not a field of ValidatingWebhook: it belongs in namespaceSelector or objectSelector"),
        ("webhook", "scope: Namespaced", "namespaceSelector: {}", "error unknown-field webhooks[0].rules[0].namespaceSelector: is not a field of RuleWithOperations: it is a field of ValidatingWebhook, check the indentation"),
        ("webhook", "{name: a}\nw", "{name: a, label: {}}\nw", "error unknown-field metadata.label: is not a field of ObjectMeta; did you mean labels?"),
        ("webhook", "webhooks:", "Webhooks:", "error unknown-field Webhooks: is not a field of ValidatingWebhookConfiguration; did you mean webhooks?"),
        ("webhook", "port: 443", 'port: "443"', 'error invalid webhooks[0].clientConfig.service.port: must be an integer, not the string "443": remove the quotes'),
        ("webhook", "[CREATE]", "[create]", 'error unsupported webhooks[0].rules[0].operations[0]: must be one of *, CONNECT, CREATE, DELETE, UPDATE, not the string "create": did you mean CREATE?'),
        ("deployment", "replicas", "replica", "warning unknown-field spec.replica: is not a field of DeploymentSpec in Kubernetes 1.36; did you mean replicas?"),
        ("deployment", "{labels: {a: b}}", "[]", "error invalid spec.template.metadata: must be an object ({members}), not a list"),
        ("v1alpha1", "topology: {pools: [", "topology: {pool: [], pools: [", "error unknown-field spec.topology.pool: is not a field of topology; did you mean pools?"),
        ("v1beta1", "workloadTweaks: [{pools", "workloadTweaks: [{pool: a, pools", "error unknown-field spec.workload.workloadTweaks[0].pool: is not a field of workloadTweaks; did you mean pools?"),
        ("v1beta1", "operation: add", "operation: move", 'error unsupported spec.workload.workloadTweaks[0].tweaks.patches[0].operation: must be one of add, remove, replace, not the string "move": did you mean remove?'),
        ("customization", "retention: {luaScript", "retention: {luascript", "error unknown-field spec.customizations.retention.luascript: is not a field of retention; did you mean luaScript?"),
        ("binding", "path: root", "workspace: root", "error unknown-field spec.reference.export.workspace: is not a field of export; the fields are name, path"),
        ("export", "schema: v1", "Schema: v1", "error unknown-field spec.resources[0].Schema: is not a field of resources; did you mean schema?"),
        ("exploring", "Ignore", "ignore", 'error unsupported webhooks[0].failurePolicy: must be one of Fail, Ignore, not the string "ignore": did you mean Ignore?'),
        ("karmada", "sha256", "sha", "error unknown-field spec.crdTarball.httpSource.sha: is not a field of httpSource; did you mean sha256?"),
        ("policy", "clusterNames", "clusterName", "warning unknown-field spec.placement.clusterAffinity.clusterName: is not a field of clusterAffinity; did you mean clusterNames?"),
        ("node pool", "hostNetwork", "hostnetwork", "error unknown-field spec.hostnetwork: is not a field of spec; did you mean hostNetwork?"),
        ("widget", "size: 1", "Size: 1", "warning unknown-field spec.Size: is not a field of spec; did you mean size?"),
        ("widget", "size: 1", "size: true", "error invalid spec.size: must be an integer, not true"),
        ("widget", "cpu: 100m", "cpu: 0.1", "error invalid spec.cpu: must be a string or an integer, not the number 0.1"),
        ("widget", "{a: b}", "{a: 1}", "error invalid spec.labels.a: must be a string, not the number 1: quote it"),
        ("widget", "{any: 1}, p", "{known: {any: 1}}, p", "warning unknown-field spec.free.known.any: is not a field of known"),
    ],
)  # fmt: skip
def test_a_member_that_the_api_lacks_is_a_finding(name: str, written: str, instead: str, finding: str) -> None:
    assert written in DOCUMENTS[name]
    members = "annotations, creationTimestamp, deletionGracePeriodSeconds, deletionTimestamp, finalizers, generateName, generation, labels, managedFields, name, namespace, ownerReferences, …"
    assert find(DOCUMENTS[name].replace(written, instead, 1)) == [finding.replace("{members}", members)]


def test_null_and_empty_texts_are_absent() -> None:
    assert find(WEBHOOK.replace("failurePolicy: Fail", "failurePolicy: null")) == []
    assert find(WEBHOOK.replace("failurePolicy: Fail", "failurePolicy: ''")) == []
    assert len(find(WEBHOOK.replace("failurePolicy: Fail", "failurepolicy: null"))) == 1


def test_an_object_of_any_depth_is_checked() -> None:
    nested: dict[str, Any] = {"type": "object", "extra": 1}
    for _ in range(5_000):
        nested = {"type": "array", "not": nested}
    definition = read(DEFINITION)
    definition["spec"]["versions"][1]["schema"]["openAPIV3Schema"] = nested
    assert [one.field[-6:] for one in check_object(definition)] == [".extra"]
