{{- /* 55: with -metrics or -webhook it is the name of a Service, and those have 63 at most. */ -}}
{{- define "butler-ipam.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 55 | trimSuffix "-" -}}
{{- else -}}
{{- default .Chart.Name .Values.nameOverride | trunc 55 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "butler-ipam.selector" -}}
app.kubernetes.io/name: butler-controller
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: ipam
{{- end -}}

{{- define "butler-ipam.labels" -}}
{{ include "butler-ipam.selector" . }}
app.kubernetes.io/part-of: butler
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "butler-ipam.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "butler-ipam.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "butler-ipam.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}
