// Command controller-runtime serves a mutating webhook in the usual way of that library: the handler decodes, edits and
// marshals a typed Deployment, and the library computes the patch from the two JSON texts. Server, metrics, panic
// recovery and the limit of 7 MiB are controller-runtime's.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/zapr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"fleethook/benchmarks/peers/internal/peer"
)

type mutator struct {
	decoder admission.Decoder
}

func (m *mutator) Handle(ctx context.Context, req admission.Request) admission.Response {
	deployment := &appsv1.Deployment{}
	if err := m.decoder.Decode(req, deployment); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	mutate(deployment)
	marshalled, err := json.Marshal(deployment)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	log.FromContext(ctx).Info("mutated", "operation", req.Operation)
	return admission.PatchResponseFromRaw(req.Object.Raw, marshalled)
}

// The function allow admits each request unchanged, so that kube-apiserver measures the cost of the library alone.
func allow(context.Context, admission.Request) admission.Response {
	return admission.Allowed("")
}

func mutate(deployment *appsv1.Deployment) {
	replicas := int32(peer.Replicas)
	deployment.Spec.Replicas = &replicas
	pod := &deployment.Spec.Template.Spec
	for i := range pod.Containers {
		container := &pod.Containers[i]
		if container.Name != peer.Container {
			continue
		}
		container.Image = peer.Image
		container.Env = append(container.Env, corev1.EnvVar{Name: peer.EnvName, Value: peer.EnvValue})
		if len(container.Args) > peer.ArgIndex {
			container.Args[peer.ArgIndex] = peer.Arg
		}
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{
		Name:         peer.Volume,
		VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: peer.HostPath}},
	})
}

// freePort returns an unused port for `--port 0`; the server would use its default port for 0.
func freePort() int {
	listener := peer.Of(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func main() {
	given := peer.ServerFlags()
	if given.Port == 0 {
		given.Port = freePort()
	}
	// zap's production encoding without its sampling: every server of this comparison writes one line per review.
	// controller-runtime's own constructor enables sampling, which would keep a hundredth of the lines.
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	core := zapcore.NewCore(encoder, zapcore.Lock(given.Log), zapcore.InfoLevel)
	log.SetLogger(zapr.NewLogger(zap.New(core)))

	server := webhook.NewServer(webhook.Options{
		Host:    "127.0.0.1",
		Port:    given.Port,
		CertDir: given.CertDir,
		// kube-apiserver speaks HTTP/1.1 to a Service, too.
		TLSOpts: []func(*tls.Config){func(config *tls.Config) { config.NextProtos = []string{"http/1.1"} }},
	})
	server.Register(peer.Path, &webhook.Admission{Handler: &mutator{admission.NewDecoder(scheme.Scheme)}})
	registerRules(server)
	server.Register("/noop", &webhook.Admission{Handler: admission.HandlerFunc(allow)})
	server.WebhookMux().Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}))

	go func() {
		for started := server.StartedChecker(); started(nil) != nil; {
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Printf("serving on %d\n", given.Port)
	}()
	if err := server.Start(signals.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
