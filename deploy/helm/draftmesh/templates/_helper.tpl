{{/*
Pods of a role that verifiers dial and can do without: root, role, pods (its section of the values), replicas (empty: not
ours to say). They go one at a time, each under its old name, and the name behind which all of them are found.
*/}}
{{- define "draftmesh.helper" -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ include "draftmesh.name" .root }}-{{ .role }}s
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "draftmesh.labels" . | nindent 4 }}
spec:
  serviceName: {{ include "draftmesh.name" .root }}-{{ .role }}s
  podManagementPolicy: Parallel
  {{- if eq .root.Values.autoscaling.kind "none" }}
  replicas: {{ .replicas }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "draftmesh.selector" . | nindent 6 }}
  template:
    {{- include "draftmesh.pod" (dict "root" .root "role" .role "pods" .pods "dials" list) | nindent 4 }}
---
{{ include "draftmesh.headless" . }}
{{- end -}}
