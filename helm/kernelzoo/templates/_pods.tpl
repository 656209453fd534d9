{{- /* What every pod says: (list $ values-of-the-component). */ -}}
{{- define "kernelzoo.pod" -}}
{{- $top := index . 0 -}}
{{- $values := index . 1 -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with $top.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* What every container says: (list $ image values-of-the-component). */ -}}
{{- define "kernelzoo.container" -}}
{{- $top := index . 0 -}}
image: {{ include "kernelzoo.image" (list $top (index . 1)) }}
imagePullPolicy: {{ $top.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources:
  {{- toYaml (index . 2).resources | nindent 2 }}
{{- end -}}

{{- /* (list NAME secret key): an environment variable whose value is in a secret. */ -}}
{{- define "kernelzoo.secret" -}}
- name: {{ index . 0 }}
  valueFrom:
    secretKeyRef:
      name: {{ index . 1 }}
      key: {{ index . 2 }}
{{- end -}}

{{- define "kernelzoo.databaseSecret" -}}
{{ include "kernelzoo.secret" (list "KERNELZOO_DATABASE_URL" .Values.database.secretName .Values.database.key) }}
{{- end -}}

{{- define "kernelzoo.operatorSecret" -}}
{{ include "kernelzoo.secret" (list "KERNELZOO_OPERATOR_KEY" .Values.keys.secretName .Values.keys.operatorKey) }}
{{- end -}}

{{- /* What the gateway and all workers read. */ -}}
{{- define "kernelzoo.environment" -}}
{{ include "kernelzoo.databaseSecret" . }}
{{ include "kernelzoo.secret" (list "KERNELZOO_REDIS_URL" .Values.redis.secretName .Values.redis.key) }}
{{- range $name, $value := .Values.settings }}
- name: KERNELZOO_{{ upper $name }}
  {{- /* A large number that came from YAML is a float to Helm, and would be written as 1e+06. */}}
  value: {{ ternary (printf "%v" $value) (toJson $value) (kindIs "string" $value) | quote }}
{{- end }}
{{- end -}}

{{- /* The one place where a process may write. */ -}}
{{- define "kernelzoo.temporary" -}}
- name: temporary
  emptyDir:
    sizeLimit: 64Mi
{{- end -}}

{{- /* The loop of a Celery process turns: it touches a file, whose age the image's check reads. */ -}}
{{- define "kernelzoo.aliveProbes" -}}
startupProbe:
  exec:
    command: [python, -m, workers.alive]
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 36
livenessProbe:
  exec:
    command: [python, -m, workers.alive]
  periodSeconds: 30
  timeoutSeconds: 5
  failureThreshold: 10
{{- end -}}
