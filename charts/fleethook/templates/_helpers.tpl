{{- define "fleethook.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "fleethook.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "fleethook.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "fleethook.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "fleethook.selectorLabels" -}}
app.kubernetes.io/name: {{ include "fleethook.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fleethook.labels" -}}
{{ include "fleethook.selectorLabels" . }}
{{ include "fleethook.releaseLabels" . }}
{{- end }}

{{- define "fleethook.releaseLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "fleethook.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "fleethook.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "fleethook.secretName" -}}
{{- default (printf "%s-certs" (include "fleethook.fullname" .)) .Values.certificates.secretName }}
{{- end }}

{{- define "fleethook.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* The list of enabled engines. */}}
{{- define "fleethook.engines" -}}
{{- $on := list }}
{{- range $name, $engine := .Values.engines }}
{{- $default := and (eq $name "overrider") (not $.Values.engines.rules.enabled) }}
{{- if ternary $default $engine.enabled (kindIs "invalid" $engine.enabled) }}{{ $on = append $on $name }}{{ end }}
{{- end }}
{{- $on | toJson }}
{{- end }}

{{/*
The Secret with the kubeconfig of the kcp to follow; empty if fleethook follows this cluster. With a kcp, fleethook neither
reads nor writes this cluster, so this template refuses values that need it.
*/}}
{{- define "fleethook.kubeconfigSecret" -}}
{{- with .Values.engines.dispatch }}
{{- if and .cacheKubeconfigSecret (not .kubeconfigSecret) }}
{{- fail "engines.dispatch.cacheKubeconfigSecret is for a kcp elsewhere: set engines.dispatch.kubeconfigSecret, too" }}
{{- end }}
{{- if .kubeconfigSecret }}
{{- if not .enabled }}
{{- fail "engines.dispatch.kubeconfigSecret is for dispatching: set engines.dispatch.enabled=true, or leave it empty" }}
{{- end }}
{{- if eq $.Values.certificates.mode "self" }}
{{- fail "with engines.dispatch.kubeconfigSecret the server is not connected to this cluster, where certificates.mode=self keeps its CA: set certificates.mode to cert-manager, or to existing with certificates.secretName" }}
{{- end }}
{{- .kubeconfigSecret }}
{{- end }}
{{- end }}
{{- end }}

{{/* Whether the leader maintains caBundle: it neither comes from cert-manager nor from a value, and the release has webhooks. */}}
{{- define "fleethook.keepsBundle" -}}
{{- if not (or (eq .Values.certificates.mode "cert-manager") .Values.certificates.caBundle (include "fleethook.kubeconfigSecret" .)) }}true{{ end }}
{{- end }}

{{/* Whether the leader maintains the ResourceInterpreterWebhookConfiguration. */}}
{{- define "fleethook.registersInterpreters" -}}
{{- $interpret := .Values.engines.interpret }}
{{- if and $interpret.enabled (ne $interpret.register "off") (not (include "fleethook.kubeconfigSecret" .)) }}true{{ end }}
{{- end }}

{{/* The ConfigMap with admission rules; empty without rules. */}}
{{- define "fleethook.rules" -}}
{{- with .Values.engines.rules }}
{{- if and .enabled .existingConfigMap }}
{{- if or .files (not .keys) }}
{{- fail "engines.rules.existingConfigMap needs the names of its keys in engines.rules.keys, and excludes engines.rules.files" }}
{{- end }}
{{- .existingConfigMap }}
{{- else if and .enabled .files }}
{{- printf "%s-rules" (include "fleethook.fullname" $) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Whether the leader registers the webhooks of admission rules. */}}
{{- define "fleethook.registersRules" -}}
{{- if and (include "fleethook.rules" .) (not (include "fleethook.kubeconfigSecret" .)) }}true{{ end }}
{{- end }}

{{/* Whether the leader runs the controller. */}}
{{- define "fleethook.controls" -}}
{{- if and .Values.controller.enabled (not (include "fleethook.kubeconfigSecret" .)) }}true{{ end }}
{{- end }}

{{/* The name of the controller for CRD tarballs. It differs, so that selectors of the server do not select the controller. */}}
{{- define "fleethook.engines.crds.fullname" -}}
{{- printf "%s-crds" (include "fleethook.fullname" .) }}
{{- end }}

{{- define "fleethook.engines.crds.selectorLabels" -}}
app.kubernetes.io/name: {{ printf "%s-crds" (include "fleethook.name" . | trunc 58 | trimSuffix "-") }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fleethook.engines.crds.labels" -}}
{{ include "fleethook.engines.crds.selectorLabels" . }}
{{ include "fleethook.releaseLabels" . }}
{{- end }}

{{/* The namespace of its Lease. Without the operator it uses the operator's Lease, in the operator's namespace. */}}
{{- define "fleethook.engines.crds.leaseNamespace" -}}
{{- default (ternary .Release.Namespace "karmada-system" .Values.crdsController.besideOperator) .Values.crdsController.leaseNamespace }}
{{- end }}

{{/* Whether only one node at a time can attach its volume. */}}
{{- define "fleethook.engines.crds.ofOneNode" -}}
{{- with .Values.crdsController.persistence }}
{{- if and .enabled (not (has "ReadWriteMany" .accessModes)) }}true{{ end }}
{{- end }}
{{- end }}

{{/* Variables of traces; those of extraEnv follow, and override them. */}}
{{- define "fleethook.tracing" -}}
{{- if .Values.tracing.endpoint }}
- {name: FLEETHOOK_OTLP_ENDPOINT, value: {{ .Values.tracing.endpoint | quote }}}
{{- include "fleethook.sampling" . }}
{{- end }}
{{- end }}

{{- define "fleethook.sampling" }}
- {name: OTEL_TRACES_SAMPLER, value: parentbased_traceidratio}
- {name: OTEL_TRACES_SAMPLER_ARG, value: {{ .Values.tracing.sample | quote }}}
{{- end }}

{{/* The port of the collector of traces. */}}
{{- define "fleethook.tracingPort" -}}
{{- $url := urlParse .Values.tracing.endpoint }}
{{- regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) | default (ternary "443" "80" (eq $url.scheme "https")) }}
{{- end }}
