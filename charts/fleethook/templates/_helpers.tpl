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

{{/* The engines that are switched on, as a list. */}}
{{- define "fleethook.engines" -}}
{{- $on := list }}
{{- range $name, $engine := .Values.engines }}
{{- if $engine.enabled }}{{ $on = append $on $name }}{{ end }}
{{- end }}
{{- $on | toJson }}
{{- end }}

{{/* Whether the leader keeps caBundle: where the certificates do not come from cert-manager or a fixed bundle. */}}
{{- define "fleethook.keepsBundle" -}}
{{- if and (ne .Values.certificates.mode "cert-manager") (not .Values.certificates.caBundle) }}true{{ end }}
{{- end }}
