{{- define "spindle-gateway.name" -}}
{{- $name := contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) -}}
{{- $name | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "spindle-gateway.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "spindle-gateway.labels" -}}
{{ include "spindle-gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* The port in the pod: above 1023, so that the process needs no capability. */ -}}
{{- define "spindle-gateway.port" -}}4430{{- end }}
