{{/* The pod of a role: root, role, pods (its section of the values), dials (roles). */}}
{{- define "draftmesh.pod" -}}
{{- $root := .root -}}
{{- $front := eq .role "front" -}}
{{- $follower := eq .role "follower" -}}
{{- $leads := and (eq .role "verifier") (include "draftmesh.apart" $root) -}}
{{- $leave := ternary ($root.Values.front.leave | int) 0 $front -}}
metadata:
  labels:
    {{- include "draftmesh.labels" (dict "root" $root "role" .role) | nindent 4 }}
  annotations:
    draftmesh/config: {{ include "draftmesh.config" $root | sha256sum }}
    {{- with .pods.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "draftmesh.account" $root }}
  automountServiceAccountToken: false
  enableServiceLinks: false  # a Service called draftmesh-... would become variables that look like ours
  terminationGracePeriodSeconds: {{ add $leave (include "draftmesh.drain" (dict "root" $root "role" .role)) 10 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .pods.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .pods.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with .pods.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .pods.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .pods.spread }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "draftmesh.selector" (dict "root" $root "role" $.role) | nindent 10 }}
  {{- end }}
  {{- with .pods.near }}
  affinity:
    podAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: {{ . }}
            labelSelector:
              matchLabels:
                {{- include "draftmesh.selector" (dict "root" $root "role" "verifier") | nindent 16 }}
  {{- end }}
  containers:
    - name: {{ .role }}
      image: {{ include "draftmesh.image" $root | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args:
        - run
        - {{ .role }}
        - --name
        - $(POD_NAME)
        {{- if $follower }}
        - --rendezvous
        - $(LWS_LEADER_ADDRESS):{{ .pods.rendezvousPort }}
        - --rank
        - $(LWS_WORKER_INDEX)
        {{- end }}
        {{- if $leads }}
        - --rendezvous
        - {{ printf "%s:%v" $root.Values.mesh.host .pods.rendezvousPort | quote }}
        {{- end }}
        {{- if not (or $front $follower) }}
        - --bind
        - tcp://{{ $root.Values.mesh.host }}:{{ $root.Values.mesh.port }}
        {{- end }}
        {{- range .dials }}
        - --dial
        - tcp://{{ include "draftmesh.name" $root }}-{{ . }}s:{{ $root.Values.mesh.port }}
        {{- end }}
        - --config
        - /etc/draftmesh/draftmesh.yaml
      env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - name: POD_NAMESPACE
          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
        - name: NODE_NAME
          valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
        - name: OTEL_RESOURCE_ATTRIBUTES
          value: k8s.pod.name=$(POD_NAME),k8s.namespace.name=$(POD_NAMESPACE),k8s.node.name=$(NODE_NAME)
        - name: HOME
          value: /tmp
        - name: DRAFTMESH_CACHE
          value: /cache
        - name: HF_HOME
          value: /cache/huggingface
        {{- if and $front $root.Values.apiKey.secret }}
        - name: DRAFTMESH_FRONT__API_KEY
          valueFrom:
            secretKeyRef:
              name: {{ $root.Values.apiKey.secret }}
              key: {{ $root.Values.apiKey.key }}
        {{- end }}
        {{- range $name, $value := .pods.environment }}
        - name: {{ $name }}
          value: {{ $value | quote }}
        {{- end }}
      ports:
        {{- if $front }}
        - {name: http, containerPort: 8000}
        - {name: metrics, containerPort: 9100}
        {{- with get ($root.Values.config.front | default dict) "grpc_port" }}
        - {name: grpc, containerPort: {{ . }}}
        {{- end }}
        {{- else }}
        {{- if not $follower }}
        - {name: mesh, containerPort: {{ $root.Values.mesh.port }}}
        {{- end }}
        {{- if $leads }}
        - {name: rendezvous, containerPort: {{ .pods.rendezvousPort }}}
        {{- end }}
        - {name: health, containerPort: 9200}
        {{- end }}
      startupProbe:
        {{- include (ternary "draftmesh.aliveProbe" "draftmesh.meshProbe" $front) . | nindent 8 }}
        periodSeconds: 5
        failureThreshold: {{ div (add .pods.loadSeconds 4) 5 }}
      livenessProbe:
        {{- include (ternary "draftmesh.aliveProbe" "draftmesh.meshProbe" $front) . | nindent 8 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        {{- include (ternary "draftmesh.readyProbe" "draftmesh.meshProbe" $front) . | nindent 8 }}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 2
      {{- if $leave }}
      lifecycle:
        preStop:
          sleep: {seconds: {{ $leave }}}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources:
        {{- toYaml .pods.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/draftmesh/draftmesh.yaml, subPath: draftmesh.yaml, readOnly: true}
        {{- if not $root.Values.mesh.insecure }}
        - {name: keys, mountPath: /etc/draftmesh/keys, readOnly: true}
        {{- end }}
        - {name: cache, mountPath: /cache}
        - {name: tmp, mountPath: /tmp}
        - {name: shm, mountPath: /dev/shm}
        {{- range .pods.volumes }}
        - {name: {{ .name }}, mountPath: {{ .mountPath }}, readOnly: true}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "draftmesh.name" $root }}-config}
    {{- if not $root.Values.mesh.insecure }}
    - name: keys
      secret: {secretName: {{ $root.Values.mesh.keysSecret }}, defaultMode: 0440}
    {{- end }}
    - name: cache
      {{- if $root.Values.modelCache.claim }}
      persistentVolumeClaim: {claimName: {{ $root.Values.modelCache.claim }}}
      {{- else }}
      emptyDir: {sizeLimit: {{ $root.Values.modelCache.size }}}
      {{- end }}
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
    - name: shm
      emptyDir: {medium: Memory, sizeLimit: {{ .pods.shmSize }}}
    {{- range .pods.volumes }}
    - name: {{ .name }}
      {{- toYaml .source | nindent 6 }}
    {{- end }}
{{- end -}}

{{- define "draftmesh.aliveProbe" -}}
httpGet: {path: /health, port: http}
{{- end -}}

{{- define "draftmesh.readyProbe" -}}
httpGet: {path: /ready, port: http}
{{- end -}}
