{{/* An image: registry, repository, and digest or tag. */}}
{{- define "tidegate.image" -}}
{{- $image := index .root.Values.images .name -}}
{{- with .root.Values.images.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ end -}}
{{- end }}

{{/* Labels of every object. */}}
{{- define "tidegate.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/part-of: tidegate
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* Labels by which a component's pods are found; they never change. */}}
{{- define "tidegate.selector" -}}
app.kubernetes.io/name: tidegate-{{ .component }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{/* The Secret with the certificate. */}}
{{- define "tidegate.certificateSecret" -}}
{{- if eq .Values.certificate.source "secret" -}}
{{- required "certificate.secretName: name the Secret that holds tls.crt, tls.key and ca.crt" .Values.certificate.secretName -}}
{{- else -}}
tidegate-certificate
{{- end -}}
{{- end }}

{{/* The security context of a pod of the control plane. */}}
{{- define "tidegate.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* The security context of its container. */}}
{{- define "tidegate.securityContext" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
privileged: false
readOnlyRootFilesystem: true
runAsNonRoot: true
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* What a component's pods share: where they run. */}}
{{- define "tidegate.placement" -}}
{{- $values := index .root.Values .component -}}
{{- with .root.Values.images.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
nodeSelector:
  kubernetes.io/os: linux
  {{- with $values.nodeSelector }}{{ toYaml . | nindent 2 }}{{ end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if .root.Values.highAvailability.antiAffinity }}
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels: {{- include "tidegate.selector" . | nindent 12 }}
topologySpreadConstraints:
  - topologyKey: topology.kubernetes.io/zone
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "tidegate.selector" . | nindent 8 }}
{{- end }}
{{- end }}

{{/* Annotations and labels of a component's pods. */}}
{{- define "tidegate.podMetadata" -}}
{{- $values := index .root.Values .component -}}
labels:
  {{- include "tidegate.selector" . | nindent 2 }}
  {{- include "tidegate.labels" .root | nindent 2 }}
  tidegate.io/inject: disabled
{{- if or .root.Values.monitoring.annotations $values.podAnnotations }}
annotations:
  {{- if .root.Values.monitoring.annotations }}
  prometheus.io/scrape: "true"
  prometheus.io/port: "4291"
  prometheus.io/path: /metrics
  {{- end }}
  {{- with $values.podAnnotations }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
{{- end }}

{{/* Probes of every program of the control plane. */}}
{{- define "tidegate.probes" -}}
livenessProbe:
  httpGet: {path: /live, port: admin}
  periodSeconds: 10
  timeoutSeconds: 2
readinessProbe:
  httpGet: {path: /ready, port: admin}
  periodSeconds: 2
  timeoutSeconds: 2
startupProbe:
  httpGet: {path: /live, port: admin}
  periodSeconds: 1
  failureThreshold: 60
{{- end }}
