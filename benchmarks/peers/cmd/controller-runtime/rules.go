package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const registry = "registry.example.com/"

// registerRules serves the five rules of examples/policies/rules.py, each at its own path.
func registerRules(server webhook.Server) {
	decoder := admission.NewDecoder(scheme.Scheme)
	for name, check := range map[string]func(*corev1.Pod) string{
		"required-labels":  missingLabel,
		"image-registries": otherRegistry,
		"no-latest":        latestTag,
		"resource-limits":  missingResource,
	} {
		server.Register("/rules/validate/"+name, &webhook.Admission{Handler: validator(decoder, name, check)})
	}
	server.Register("/rules/mutate/seccomp", &webhook.Admission{Handler: seccomp(decoder)})
}

// validator returns the handler of a rule. The check returns the reason of a refusal, "" to admit the Pod.
func validator(decoder admission.Decoder, rule string, check func(*corev1.Pod) string) admission.HandlerFunc {
	return func(ctx context.Context, req admission.Request) admission.Response {
		pod := &corev1.Pod{}
		if err := decoder.Decode(req, pod); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		reason := check(pod)
		log.FromContext(ctx).Info("validated", "rule", rule, "reason", reason)
		if reason != "" {
			return admission.Denied(reason)
		}
		return admission.Allowed("")
	}
}

func seccomp(decoder admission.Decoder) admission.HandlerFunc {
	return func(ctx context.Context, req admission.Request) admission.Response {
		pod := &corev1.Pod{}
		if err := decoder.Decode(req, pod); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if pod.Spec.SecurityContext == nil {
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
		}
		if pod.Spec.SecurityContext.SeccompProfile == nil {
			pod.Spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
		}
		marshalled, err := json.Marshal(pod)
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		log.FromContext(ctx).Info("mutated", "rule", "seccomp")
		return admission.PatchResponseFromRaw(req.Object.Raw, marshalled)
	}
}

func missingLabel(pod *corev1.Pod) string {
	for _, label := range []string{"app.kubernetes.io/name", "owner"} {
		if pod.Labels[label] == "" {
			return fmt.Sprintf("metadata.labels: label `%s` is missing", label)
		}
	}
	return ""
}

// eachImage returns the first reason that the check gives for the image of a container.
func eachImage(pod *corev1.Pod, check func(string) string) string {
	find := func(kind string, index int, image string) string {
		if reason := check(image); reason != "" {
			return fmt.Sprintf("spec.%s[%d].image: %s", kind, index, reason)
		}
		return ""
	}
	for index := range pod.Spec.InitContainers {
		if reason := find("initContainers", index, pod.Spec.InitContainers[index].Image); reason != "" {
			return reason
		}
	}
	for index := range pod.Spec.Containers {
		if reason := find("containers", index, pod.Spec.Containers[index].Image); reason != "" {
			return reason
		}
	}
	for index := range pod.Spec.EphemeralContainers {
		if reason := find("ephemeralContainers", index, pod.Spec.EphemeralContainers[index].Image); reason != "" {
			return reason
		}
	}
	return ""
}

func otherRegistry(pod *corev1.Pod) string {
	return eachImage(pod, func(image string) string {
		if !strings.HasPrefix(image, registry) {
			return "the image is not of " + registry
		}
		return ""
	})
}

func latestTag(pod *corev1.Pod) string {
	return eachImage(pod, func(image string) string {
		_, tag, _ := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
		if tag == "" || tag == "latest" {
			return "use a fixed tag"
		}
		return ""
	})
}

func missingResource(pod *corev1.Pod) string {
	for index := range pod.Spec.Containers {
		resources := pod.Spec.Containers[index].Resources
		for _, one := range []struct {
			kind  string
			given corev1.ResourceList
			name  corev1.ResourceName
		}{
			{"requests", resources.Requests, corev1.ResourceCPU},
			{"requests", resources.Requests, corev1.ResourceMemory},
			{"limits", resources.Limits, corev1.ResourceMemory},
		} {
			if _, found := one.given[one.name]; !found {
				return fmt.Sprintf("spec.containers[%d].resources.%s.%s: is missing", index, one.kind, one.name)
			}
		}
	}
	return ""
}
