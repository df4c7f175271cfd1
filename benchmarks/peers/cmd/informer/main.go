// client-go's informer over all Deployments of an apiserver: how long it takes until it has them, and what they weigh.
// One kind of informer per process, so that its memory is its own.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"fleethook/benchmarks/peers/internal/peer"
)

var resource = appsv1.SchemeGroupVersion.WithResource("deployments")

// informer is what there is of a kind; they keep whole objects, or metadata only.
func informer(kind string, config *rest.Config) cache.SharedIndexInformer {
	switch kind {
	case "typed":
		factory := informers.NewSharedInformerFactory(peer.Of(kubernetes.NewForConfig(config)), 0)
		return factory.Apps().V1().Deployments().Informer()
	case "dynamic":
		client := peer.Of(dynamic.NewForConfig(config))
		return dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(resource).Informer()
	case "metadata":
		client := peer.Of(metadata.NewForConfig(config))
		return metadatainformer.NewSharedInformerFactory(client, 0).ForResource(resource).Informer()
	}
	peer.Must(errors.New("--kind is typed, dynamic or metadata"))
	return nil
}

func main() {
	server := flag.String("server", "", "URL of the apiserver, where it is not the kubeconfig's")
	kubeconfig := flag.String("kubeconfig", "", "who to be there")
	kind := flag.String("kind", "typed", "typed, dynamic or metadata")
	accept := flag.String("content-type", "", "what to ask for, as application/vnd.kubernetes.protobuf; else the client's own choice")
	flag.Parse()
	config := peer.Of(clientcmd.BuildConfigFromFlags(*server, *kubeconfig))
	config.ContentType = *accept
	made := informer(*kind, config)
	before, started, processed := resident(), time.Now(), peer.CPU()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	go made.RunWithContext(ctx)
	// Not cache.WaitForCacheSync: it looks ten times a second.
	peer.Must(wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) {
		return made.HasSynced(), nil
	}))
	seconds, cpu, peak := time.Since(started).Seconds(), (peer.CPU() - processed).Seconds(), status("VmHWM:")
	count := len(made.GetStore().ListKeys())
	after := resident()
	line := map[string]any{
		"benchmark": "informer", "kind": *kind, "count": count, "seconds": seconds, "cpu": cpu,
		"rss_mib": float64(after) / (1 << 20), "peak_rss_mib": float64(peak) / (1 << 20),
	}
	if count > 0 {
		line["bytes"] = float64(after-before) / float64(count)
	}
	peer.Print(line)
	runtime.KeepAlive(made)
}

// resident is what this process holds once its garbage has gone back to the system.
func resident() int64 {
	runtime.GC()
	debug.FreeOSMemory()
	return status("VmRSS:")
}

// status reads a line of /proc/self/status, in bytes.
func status(name string) int64 {
	for line := range strings.Lines(string(peer.Of(os.ReadFile("/proc/self/status")))) {
		if fields := strings.Fields(line); fields[0] == name {
			return peer.Of(strconv.ParseInt(fields[1], 10, 64)) << 10
		}
	}
	return 0
}
