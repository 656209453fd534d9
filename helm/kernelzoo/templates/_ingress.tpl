{{- /* (list top bytes): what each controller calls the time to wait for an answer, and the largest
body. */ -}}
{{- define "kernelzoo.controllerAnnotations" -}}
{{- $bytes := int64 (index . 1) -}}
{{- with index . 0 -}}
{{- $seconds := int .Values.ingress.longPollSeconds -}}
{{- if eq .Values.ingress.controller "nginx" }}
nginx.ingress.kubernetes.io/proxy-read-timeout: {{ $seconds | quote }}
nginx.ingress.kubernetes.io/proxy-send-timeout: {{ $seconds | quote }}
nginx.ingress.kubernetes.io/proxy-body-size: {{ $bytes | quote }}
{{- else if eq .Values.ingress.controller "nginx-f5" }}
nginx.org/proxy-read-timeout: {{ printf "%ds" $seconds }}
nginx.org/proxy-send-timeout: {{ printf "%ds" $seconds }}
nginx.org/client-max-body-size: {{ $bytes | quote }}
{{- else if eq .Values.ingress.controller "haproxy" }}
haproxy.org/timeout-server: {{ printf "%ds" $seconds }}
{{- else if eq .Values.ingress.controller "alb" }}
alb.ingress.kubernetes.io/load-balancer-attributes: {{ printf "idle_timeout.timeout_seconds=%d" $seconds }}
{{- end }}
{{- end -}}
{{- end -}}

{{- /* (dict top name paths bytes annotations) */ -}}
{{- define "kernelzoo.ingress" -}}
{{- $top := .top -}}
{{- $gateway := printf "%s-gateway" (include "kernelzoo.fullname" $top) -}}
{{- $controller := include "kernelzoo.controllerAnnotations" (list $top .bytes) | fromYaml -}}
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ $gateway }}{{ .name }}
  labels:
    {{- include "kernelzoo.labels" (list $top "gateway") | nindent 4 }}
  {{- with mergeOverwrite (dict) $controller $top.Values.ingress.annotations .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with $top.Values.ingress.className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with $top.Values.ingress.tlsSecretName }}
  tls:
    - hosts: [{{ $top.Values.ingress.host | quote }}]
      secretName: {{ . }}
  {{- end }}
  rules:
    - host: {{ $top.Values.ingress.host | quote }}
      http:
        paths:
          {{- range .paths }}
          - path: {{ . }}
            pathType: Prefix
            backend:
              service:
                name: {{ $gateway }}
                port:
                  name: http
          {{- end }}
{{- end -}}
