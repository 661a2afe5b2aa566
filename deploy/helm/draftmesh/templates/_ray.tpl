{{- define "draftmesh.rayPod" -}}
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
