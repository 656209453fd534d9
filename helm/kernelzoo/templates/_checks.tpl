{{- /* Values that contradict one another. Each message says what is wrong and what to do. */ -}}
{{- define "kernelzoo.checks" -}}
{{- $ingress := .Values.ingress -}}
{{- $policy := .Values.networkPolicy -}}
{{- range $proxy := .Values.gateway.trustedProxies -}}
  {{- if or (eq $proxy "*") (hasSuffix "/0" $proxy) -}}
    {{- fail (printf "gateway.trustedProxies names %s: any visitor could count as many networks by a header; name the ingress controller's addresses or CIDRs, and in gateway.trustedHops how many proxies stand in a row" $proxy) -}}
  {{- end -}}
{{- end -}}
{{- with .Values.gateway -}}
  {{- if and .models.enabled (not .models.existingClaim) (eq .models.accessMode "ReadWriteOnce") (or .autoscaling.enabled (gt (int .replicas) 1)) -}}
    {{- fail "gateway.models.accessMode is ReadWriteOnce, but there are several gateways, which pods of other nodes could not mount it for: set gateway.models.accessMode=ReadWriteMany with a class that has it, or gateway.replicas=1 without autoscaling" -}}
  {{- end -}}
{{- end -}}
{{- if and .Values.database.ownerSecretName (not .Values.database.role) -}}
  {{- fail "database.ownerSecretName is set, but database.role is empty, so migrations would grant nobody anything: set it to the role that database.secretName's address connects as" -}}
{{- end -}}
{{- with .Values.attestation -}}
  {{- if and (has "private-token" .kinds) (not .privateTokenIssuers) -}}
    {{- fail "attestation.kinds names private-token, but attestation.privateTokenIssuers is empty, so no token could be believed: write name=token-key of each issuer, as its directory shows the key" -}}
  {{- end -}}
{{- end -}}
{{- with .Values.cdn -}}
  {{- if and (eq .kind "varnish") (not .urls) -}}
    {{- fail "cdn.kind is varnish, but cdn.urls is empty: write the address of each Varnish" -}}
  {{- end -}}
  {{- if and (has .kind (list "fastly" "cloudflare")) (not .service) -}}
    {{- fail (printf "cdn.kind is %s, but cdn.service is empty: write Fastly's service or Cloudflare's zone" .kind) -}}
  {{- end -}}
{{- end -}}
{{- if $ingress.enabled -}}
  {{- if not $ingress.host -}}
    {{- fail "ingress.enabled needs a name to answer to: set ingress.host" -}}
  {{- end -}}
  {{- if not (or $ingress.tlsSecretName $ingress.allowHttp) -}}
    {{- fail "ingress.enabled without a certificate: browsers isolate pages over https only, and without that there are no threads and no fine clock; set ingress.tlsSecretName, or ingress.allowHttp=true to do without" -}}
  {{- end -}}
{{- end -}}
{{- with .Values.httpRoute -}}
  {{- if and .enabled (not .host) -}}
    {{- fail "httpRoute.enabled needs a name to answer to: set httpRoute.host" -}}
  {{- end -}}
  {{- if and .enabled (not .parentRefs) -}}
    {{- fail "httpRoute.enabled, but httpRoute.parentRefs is empty, so no gateway would serve the route: name one, for example [{name: public, namespace: gateways}]" -}}
  {{- end -}}
{{- end -}}
{{- range $way, $proxy := dict "ingress" "the ingress controller" "httpRoute" "the Gateway API's gateway" -}}
  {{- if (index $.Values $way).enabled -}}
    {{- if not $.Values.gateway.trustedProxies -}}
      {{- fail (printf "%s.enabled, but gateway.trustedProxies is empty: all visitors would count as one network, which may open only 20 identities a day; set it to the addresses of %s" $way $proxy) -}}
    {{- end -}}
    {{- if and $policy.enabled (not $policy.gatewayPeers) -}}
      {{- fail (printf "%s.enabled, but networkPolicy.gatewayPeers is empty, so %s cannot reach the gateway: name its pods there, or set networkPolicy.enabled=false" $way $proxy) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if $policy.enabled -}}
  {{- range $service := list "database" "redis" -}}
    {{- if not (index $policy $service).peers -}}
      {{- fail (printf "networkPolicy.enabled, but networkPolicy.%s.peers is empty, so no pod could reach it: say where it lies, for example [{ipBlock: {cidr: 10.0.0.5/32}}], or set networkPolicy.enabled=false" $service) -}}
    {{- end -}}
  {{- end -}}
  {{- if and .Values.monitoring.serviceMonitor.enabled (not $policy.monitoringPeers) -}}
    {{- fail "monitoring.serviceMonitor.enabled, but networkPolicy.monitoringPeers is empty, so Prometheus cannot reach any pod: name its pods there, or set networkPolicy.enabled=false" -}}
  {{- end -}}
{{- end -}}
{{- if .Values.gateway.autoscaling.enabled -}}
  {{- include "kernelzoo.checkRange" (list "gateway" .Values.gateway) -}}
  {{- include "kernelzoo.checkRequest" (list "gateway" .Values.gateway) -}}
{{- end -}}
{{- range $component := list "compile" "aggregate" -}}
  {{- $values := index $.Values $component -}}
  {{- $kind := $values.autoscaling.kind -}}
  {{- if ne $kind "none" -}}
    {{- include "kernelzoo.checkRange" (list $component $values) -}}
  {{- end -}}
  {{- if eq $kind "cpu" -}}
    {{- include "kernelzoo.checkRequest" (list $component $values) -}}
    {{- if not $values.autoscaling.minReplicas -}}
      {{- fail (printf "%s.autoscaling.minReplicas is 0, but without pods there is no CPU to scale on: set it to 1, or %s.autoscaling.kind=keda" $component $component) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if and (ne .Values.aggregate.autoscaling.kind "none") (not .Values.aggregate.autoscaling.minReplicas) -}}
  {{- fail "aggregate.autoscaling.minReplicas is 0, but only aggregate workers find the messages that a broker lost: set it to 1 or more" -}}
{{- end -}}
{{- if .Values.fleet.enabled -}}
  {{- if not (hasPrefix "https://" .Values.fleet.url) -}}
    {{- fail (printf "fleet.enabled, but fleet.url is %q: pages are isolated over https only, and no other page has a clock to time kernels with; set it to the gateway's public https:// address" .Values.fleet.url) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "kernelzoo.checkRange" -}}
{{- $autoscaling := (index . 1).autoscaling -}}
{{- if gt (int $autoscaling.minReplicas) (int $autoscaling.maxReplicas) -}}
  {{- fail (printf "%s.autoscaling.minReplicas (%d) exceeds maxReplicas (%d): raise the latter" (index . 0) (int $autoscaling.minReplicas) (int $autoscaling.maxReplicas)) -}}
{{- end -}}
{{- end -}}

{{- /* A share of nothing cannot be reached. */ -}}
{{- define "kernelzoo.checkRequest" -}}
{{- $resources := (index . 1).resources -}}
{{- if not (dig "requests" "cpu" "" $resources) -}}
  {{- fail (printf "%s scales on a share of the requested CPU, but requests none: set %s.resources.requests.cpu" (index . 0) (index . 0)) -}}
{{- end -}}
{{- end -}}
