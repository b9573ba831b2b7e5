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
