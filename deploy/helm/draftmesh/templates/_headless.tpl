{{/*
The name behind which all pods of a role are found. Pods that are not ready are named too: one that ends must be
reachable until it has drained, and one that loads answers no hello. Readiness is the mesh's own business.
*/}}
{{- define "draftmesh.headless" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "draftmesh.name" .root }}-{{ .role }}s
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "draftmesh.labels" . | nindent 4 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "draftmesh.selector" . | nindent 4 }}
  ports:
    - {name: mesh, port: {{ .root.Values.mesh.port }}, targetPort: mesh}
{{- end -}}
