{{/* Front doors tell the same numbers of the same nodes: each counts once. */}}
{{- define "draftmesh.waitingQuery" -}}
sum(max by (engine) ({{ include "draftmesh.prefix" . }}num_requests_waiting{namespace="{{ .Release.Namespace }}",service="{{ include "draftmesh.name" . }}-front"}))
{{- end -}}

{{- define "draftmesh.staleQuery" -}}
sum(max by (node, reason) (rate(draftmesh_plain_rounds_total{namespace="{{ .Release.Namespace }}",service="{{ include "draftmesh.name" . }}-front",reason=~"late|waiting|no_drafter"}[2m])))
{{- end -}}

{{- define "draftmesh.queuedQuery" -}}
sum(max by (node) (draftmesh_queued_tokens{namespace="{{ .Release.Namespace }}",service="{{ include "draftmesh.name" . }}-front"}))
{{- end -}}
