{{/*
A pod of the Ray cluster: root, head. KubeRay puts `ray start` in front, and would ask by `wget`, which the image lacks, if it
found no probes. The head is also where the front door listens, so its ports are named for KubeRay's Service.
*/}}
{{- define "draftmesh.rayPod" -}}
{{- $head := .head -}}
{{- with .root -}}
metadata:
  labels:
    {{- include "draftmesh.labels" (dict "root" . "role" "ray") | nindent 4 }}
spec:
  serviceAccountName: {{ include "draftmesh.account" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: ray
      image: {{ include "draftmesh.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      env:
        - {name: HOME, value: /tmp}
        - {name: DRAFTMESH_CACHE, value: /cache}
        - {name: RAY_USAGE_STATS_ENABLED, value: "0"}
        - {name: RAY_AUTH_MODE, value: disabled}
        - {name: RAY_JOB_STOP_WAIT_TIME_S, value: {{ include "draftmesh.drainAll" . | quote }}}
      {{- if $head }}
      ports:
        - {name: gcs-server, containerPort: 6379}
        - {name: dashboard, containerPort: 8265}
        - {name: client, containerPort: 10001}
        - {name: http, containerPort: 8000}
        - {name: numbers, containerPort: 9100}
      {{- end }}
      {{- range $kind, $misses := dict "startupProbe" 60 "livenessProbe" 6 "readinessProbe" 2 }}
      {{ $kind }}:
        httpGet: {{ ternary "{path: /api/gcs_healthz, port: 8265}" "{path: /api/local_raylet_healthz, port: 52365}" $head }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: {{ $misses }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources:
        {{- toYaml .Values.rayCluster.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/draftmesh/draftmesh.yaml, subPath: draftmesh.yaml, readOnly: true}
        {{- if not .Values.mesh.insecure }}
        - {name: keys, mountPath: /etc/draftmesh/keys, readOnly: true}
        {{- end }}
        - {name: cache, mountPath: /cache}
        - {name: tmp, mountPath: /tmp}
        - {name: shm, mountPath: /dev/shm}
  volumes:
    - name: config
      configMap: {name: {{ include "draftmesh.name" . }}-config}
    {{- if not .Values.mesh.insecure }}
    - name: keys
      secret: {secretName: {{ .Values.mesh.keysSecret }}, defaultMode: 0440}
    {{- end }}
    - name: cache
      {{- if .Values.modelCache.claim }}
      persistentVolumeClaim: {claimName: {{ .Values.modelCache.claim }}}
      {{- else }}
      emptyDir: {sizeLimit: {{ .Values.modelCache.size }}}
      {{- end }}
    - name: tmp
      emptyDir: {sizeLimit: 4Gi}
    - name: shm
      emptyDir: {medium: Memory, sizeLimit: 256Mi}
{{- end -}}
{{- end -}}
