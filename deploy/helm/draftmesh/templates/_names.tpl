{{- define "draftmesh.name" -}}
{{- .Values.nameOverride | default .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "draftmesh.selector" -}}
app.kubernetes.io/name: draftmesh
app.kubernetes.io/instance: {{ include "draftmesh.name" .root }}
app.kubernetes.io/component: {{ .role }}
{{- end -}}

{{- define "draftmesh.labels" -}}
{{ include "draftmesh.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "draftmesh.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "draftmesh.account" -}}
{{- .Values.serviceAccount | default (include "draftmesh.name" .) -}}
{{- end -}}

{{/* Roles that have pods; those that verifiers dial. */}}
{{- define "draftmesh.roles" -}}
front verifier {{ include "draftmesh.helpers" . }}{{ if include "draftmesh.apart" . }} follower{{ end }}
{{- end -}}

{{- define "draftmesh.ranks" -}}
{{- get (.Values.config.verifier | default dict) "tensor_parallel" | default 1 | int -}}
{{- end -}}

{{/* Whether the ranks of a verifier have pods of their own; else nothing. */}}
{{- define "draftmesh.apart" -}}
{{- $said := get (.Values.config.verifier | default dict) "ranks" | default "together" -}}
{{- if and (eq $said "apart") (gt (include "draftmesh.ranks" . | int) 1) (not .Values.rayCluster.enabled) -}}
true
{{- end -}}
{{- end -}}

{{/* What a number of verifiers is kept by: kind, apiVersion, name. */}}
{{- define "draftmesh.verifierSet" -}}
{{- if include "draftmesh.apart" . -}}
{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, name: {{ include "draftmesh.name" . }}-verifier-ranks}
{{- else -}}
{apiVersion: apps/v1, kind: Deployment, name: {{ include "draftmesh.name" . }}-verifiers}
{{- end -}}
{{- end -}}

{{- define "draftmesh.helpers" -}}
drafter{{ if .Values.config.prefill }} prefill{{ end }}
{{- end -}}

{{/* Seconds that a role may take to drain, as the section of its configuration says. */}}
{{- define "draftmesh.drain" -}}
{{- $section := has .role (list "prefill" "follower") | ternary "verifier" .role -}}
{{- $part := get .root.Values.config $section | default dict -}}
{{- get $part "drain_seconds" | default 10 | int -}}
{{- end -}}

{{/* The same for a whole service: roles end one after the other. */}}
{{- define "draftmesh.drainAll" -}}
{{- $all := 10 -}}
{{- range include "draftmesh.roles" . | splitList " " -}}
{{- $all = add $all (include "draftmesh.drain" (dict "root" $ "role" .)) -}}
{{- end -}}
{{- $all -}}
{{- end -}}

{{- define "draftmesh.prefix" -}}
{{- get (.Values.config.front | default dict) "metrics_prefix" | default "vllm:" -}}
{{- end -}}

{{/* What the roles read: the values under `config`, and what only the chart can know. */}}
{{- define "draftmesh.config" -}}
{{- $mesh := ternary (dict "insecure" true) (dict "keys" "/etc/draftmesh/keys") .Values.mesh.insecure -}}
{{- $host := .Values.mesh.host | trimAll "[]" -}}
{{- $own := dict "host" $host "port" 8000 "mesh" $mesh "front" (dict "metrics_port" 9100) -}}
{{- if not .Values.rayCluster.enabled -}}{{/* there several processes may share an address, and nobody asks them */}}
{{- $asked := dict "health" (dict "host" $host "port" 9200) -}}
{{- $own = mustMerge $own (dict "verifier" $asked "drafter" $asked) -}}
{{- end -}}
{{- mustMergeOverwrite (deepCopy .Values.config) $own | toYaml -}}
{{- end -}}

{{/* How Kubernetes asks a role that speaks no HTTP. It serves when the model is loaded, and does not when it drains. */}}
{{- define "draftmesh.meshProbe" -}}
grpc: {port: 9200}
{{- end -}}
