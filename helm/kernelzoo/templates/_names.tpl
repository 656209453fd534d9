{{- define "kernelzoo.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* The release's name is enough where it says what is released. */ -}}
{{- define "kernelzoo.fullname" -}}
{{- $name := include "kernelzoo.name" . -}}
{{- $release := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $release .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "kernelzoo.serviceAccount" -}}
{{- default (ternary (include "kernelzoo.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- /* (list $ component): labels by which pods are selected. They never change. */ -}}
{{- define "kernelzoo.selector" -}}
{{- $top := index . 0 -}}
app.kubernetes.io/name: {{ include "kernelzoo.name" $top }}
app.kubernetes.io/instance: {{ $top.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- /* (list $ component) */ -}}
{{- define "kernelzoo.labels" -}}
{{- $top := index . 0 -}}
{{ include "kernelzoo.selector" . }}
app.kubernetes.io/version: {{ $top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $top.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $top.Chart.Name $top.Chart.Version }}
{{- end -}}

{{- /* (list $ image) */ -}}
{{- define "kernelzoo.image" -}}
{{- $image := (index . 0).Values.image -}}
{{- $name := printf "kernelzoo-%s" (index . 1) -}}
{{- if $image.registry }}{{ $name = printf "%s/%s" (trimSuffix "/" $image.registry) $name }}{{ end -}}
{{- with index $image.digests (index . 1) -}}
{{ $name }}@{{ . }}
{{- else -}}
{{ $name }}:{{ default (index . 0).Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{- /* Origins by which browsers come in, with commas between them: through ingress and route. */ -}}
{{- define "kernelzoo.publicUrls" -}}
{{- $found := list -}}
{{- with .Values.ingress -}}
  {{- if .enabled -}}
    {{- $found = append $found (printf "%s://%s" (ternary "https" "http" (ne .tlsSecretName "")) .host) -}}
  {{- end -}}
{{- end -}}
{{- with .Values.httpRoute -}}
  {{- if .enabled -}}
    {{- $found = append $found (printf "https://%s" .host) -}}
  {{- end -}}
{{- end -}}
{{- uniq $found | join "," -}}
{{- end -}}

{{/* Where people who are alerted reach a gateway. */}}
{{- define "kernelzoo.gatewayUrl" -}}
{{- if .Values.monitoring.rules.gatewayUrl -}}
{{ .Values.monitoring.rules.gatewayUrl }}
{{- else if include "kernelzoo.publicUrls" . -}}
{{ include "kernelzoo.publicUrls" . | splitList "," | first }}
{{- else -}}
http://{{ include "kernelzoo.fullname" . }}-gateway.{{ .Release.Namespace }}.svc:{{ .Values.gateway.service.port }}
{{- end -}}
{{- end }}
