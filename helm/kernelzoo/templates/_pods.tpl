{{- /* What every pod says: (list $ values-of-the-component affinity), the latter where it has its own. */ -}}
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
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- $affinity := deepCopy (index (append . dict) 2) }}
{{- range $kind, $terms := $values.affinity }}{{ $affinity = set $affinity $kind $terms }}{{ end }}
{{- with $affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* (list $ component values-of-the-component): labels and annotations of a pod. */ -}}
{{- define "kernelzoo.podMetadata" -}}
{{- $values := index . 2 -}}
labels:
  {{- include "kernelzoo.labels" . | nindent 2 }}
  {{- with $values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* (list $ values-of-the-component): variables beside those of the process. Debian's authorities
stay: OpenSSL reads its folder beside SSL_CERT_FILE. */ -}}
{{- define "kernelzoo.extraEnvironment" -}}
{{- if (index . 0).Values.caSecret.name }}
- name: SSL_CERT_FILE
  value: /etc/kernelzoo/authorities/ca.crt
- name: PGSSLROOTCERT
  value: /etc/kernelzoo/authorities/ca.crt
{{- end }}
{{- with (index . 1).extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* (list $ values-of-the-component) */ -}}
{{- define "kernelzoo.extraMounts" -}}
{{- if (index . 0).Values.caSecret.name }}
- name: authorities
  mountPath: /etc/kernelzoo/authorities
  readOnly: true
{{- end }}
{{- with (index . 1).extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* (list $ values-of-the-component) */ -}}
{{- define "kernelzoo.extraVolumes" -}}
{{- with (index . 0).Values.caSecret }}
{{- if .name }}
- name: authorities
  secret:
    secretName: {{ .name }}
    items:
      - {key: {{ .key }}, path: ca.crt}
{{- end }}
{{- end }}
{{- with (index . 1).extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* (list $ component disruptionBudget) */ -}}
{{- define "kernelzoo.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "kernelzoo.fullname" (index . 0) }}-{{ index . 1 }}
  labels:
    {{- include "kernelzoo.labels" (list (index . 0) (index . 1)) | nindent 4 }}
spec:
  maxUnavailable: {{ (index . 2).maxUnavailable }}
  selector:
    matchLabels:
      {{- include "kernelzoo.selector" (list (index . 0) (index . 1)) | nindent 6 }}
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
