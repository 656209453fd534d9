{{- /*
The Deployment and the scaling of Celery workers: (list $ component query). The query counts the
rows that wait; a test runs it against the real schema.
*/ -}}
{{- define "kernelzoo.worker" -}}
{{- $top := index . 0 -}}
{{- $component := index . 1 -}}
{{- $values := index $top.Values $component -}}
{{- $name := printf "%s-%s" (include "kernelzoo.fullname" $top) $component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels:
    {{- include "kernelzoo.labels" (list $top $component) | nindent 4 }}
spec:
  {{- if eq $values.autoscaling.kind "none" }}
  replicas: {{ $values.replicas }}
  {{- end }}
  {{- with $values.strategy }}
  strategy:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "kernelzoo.selector" (list $top $component) | nindent 6 }}
  template:
    metadata:
      {{- include "kernelzoo.podMetadata" (list $top $component $values) | nindent 6 }}
    spec:
      serviceAccountName: {{ include "kernelzoo.serviceAccount" $top }}
      # The longest task ends within 60 s; Celery waits for it after SIGTERM.
      terminationGracePeriodSeconds: 75
      {{- include "kernelzoo.pod" (list $top $values) | nindent 6 }}
      containers:
        - name: {{ $component }}
          {{- include "kernelzoo.container" (list $top $component $values) | nindent 10 }}
          env:
            {{- include "kernelzoo.environment" $top | nindent 12 }}
            - name: CELERY_WORKER_CONCURRENCY
              value: {{ $values.processes | quote }}
            {{- with include "kernelzoo.extraEnvironment" (list $top $values) | trim }}{{ . | nindent 12 }}{{ end }}
          ports:
            - name: metrics
              containerPort: 9464
          {{- include "kernelzoo.aliveProbes" $top | nindent 10 }}
          volumeMounts:
            - name: temporary
              mountPath: /tmp
            {{- with include "kernelzoo.extraMounts" (list $top $values) | trim }}{{ . | nindent 12 }}{{ end }}
      volumes:
        {{- include "kernelzoo.temporary" $top | nindent 8 }}
        {{- with include "kernelzoo.extraVolumes" (list $top $values) | trim }}{{ . | nindent 8 }}{{ end }}
{{- if $values.disruptionBudget.enabled }}
---
{{ include "kernelzoo.disruptionBudget" (list $top $component $values.disruptionBudget) }}
{{- end }}
{{- if eq $values.autoscaling.kind "keda" }}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {{ $name }}
  labels:
    {{- include "kernelzoo.labels" (list $top $component) | nindent 4 }}
spec:
  scaleTargetRef:
    name: {{ $name }}
  minReplicaCount: {{ $values.autoscaling.minReplicas }}
  maxReplicaCount: {{ $values.autoscaling.maxReplicas }}
  pollingInterval: {{ $values.autoscaling.pollingSeconds }}
  cooldownPeriod: {{ $values.autoscaling.cooldownSeconds }}
  triggers:
    - type: postgresql
      metadata:
        query: {{ index . 2 | quote }}
        targetQueryValue: {{ $values.autoscaling.rowsPerReplica | quote }}
      authenticationRef:
        name: {{ include "kernelzoo.fullname" $top }}-database
{{- else if eq $values.autoscaling.kind "cpu" }}
---
{{ include "kernelzoo.autoscaler" (list $top $component $values.autoscaling) }}
{{- end }}
{{- end -}}

{{- /* (list $ component autoscaling) */ -}}
{{- define "kernelzoo.autoscaler" -}}
{{- $name := printf "%s-%s" (include "kernelzoo.fullname" (index . 0)) (index . 1) -}}
{{- $autoscaling := index . 2 -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ $name }}
  labels:
    {{- include "kernelzoo.labels" (list (index . 0) (index . 1)) | nindent 4 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ $name }}
  minReplicas: {{ $autoscaling.minReplicas }}
  maxReplicas: {{ $autoscaling.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {{ $autoscaling.cpuPercent }}
{{- end -}}
