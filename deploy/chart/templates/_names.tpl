{{/* Names and labels. `compat` decides whose names objects carry; everything else asks here. */}}

{{- define "mirage.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "mirage.labels" -}}
app.kubernetes.io/name: mirage
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: mirage
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* What pods are selected by; it can never change. */}}
{{- define "mirage.selector" -}}
app.kubernetes.io/part-of: mirage
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mirage.name" -}}
{{ if contains "mirage" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-mirage{{ end }}
{{- end }}

{{- define "mirage.names.node" -}}
{{ if eq .Values.compat "none" }}{{ include "mirage.name" . }}-node{{ else }}nvidia-dcgm-exporter{{ end }}
{{- end }}

{{- define "mirage.names.controller" -}}
{{ get (dict "none" (printf "%s-controller" (include "mirage.name" .)) "fake-gpu-operator" "status-updater" "gpu-operator" "gpu-operator") .Values.compat }}
{{- end }}

{{- define "mirage.names.topology" -}}
{{ if eq .Values.compat "none" }}{{ include "mirage.name" . }}-topology{{ else }}topology-server{{ end }}
{{- end }}

{{/* What the device plugin is called where somebody else's names are carried. */}}
{{- define "mirage.names.plugin" -}}
{{ get (dict "none" "" "fake-gpu-operator" "device-plugin" "gpu-operator" "nvidia-device-plugin-daemonset") .Values.compat }}
{{- end }}

{{- define "mirage.poolLabel" -}}
{{ index .Values.topology "pool-label" | default .Values.topology.nodePoolLabelKey | default "run.ai/simulated-gpu-node-pool" }}
{{- end }}

{{/* What there is to be. Not a default among the values: that would be merged into what is written there, which may be of another language. */}}
{{- define "mirage.topology" -}}
{{- if .Values.topology }}
{{- toYaml .Values.topology }}
{{- else -}}
mig-strategy: mixed
pools:
  default:
    gpus: 8
    model: a100-sxm4-40gb
{{- end }}
{{- end }}

{{/* A pool by which a node may be labelled, for the sake of an example. */}}
{{- define "mirage.aPool" -}}
{{ keys (.Values.topology.pools | default .Values.topology.nodePools | default (dict "default" "")) | sortAlpha | first }}
{{- end }}

{{/* Where pods run for real: not on nodes that somebody only simulates. Lines of a node affinity's expressions. */}}
{{- define "mirage.realNodes" -}}
- { key: mirage.dev/virtual-node, operator: DoesNotExist }
- { key: type, operator: NotIn, values: [kwok] }
{{- end }}
