// Command informer measures client-go's informer on all Deployments of a kube-apiserver: the time until it has listed
// them, and the memory that they take. A process runs one informer, so that its memory is that informer's.
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

// informer returns the informer of a kind: typed and dynamic ones keep complete objects, metadata ones keep metadata
// only.
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
	peer.Must(errors.New("--kind must be typed, dynamic or metadata"))
	return nil
}

func main() {
	server := flag.String("server", "", "URL of kube-apiserver, instead of the one in the kubeconfig")
	kubeconfig := flag.String("kubeconfig", "", "file with the credentials")
	kind := flag.String("kind", "typed", "kind of informer: typed, dynamic or metadata")
	accept := flag.String("content-type", "", "content type to request, for example application/vnd.kubernetes.protobuf; the default is the client's")
	flag.Parse()
	config := peer.Of(clientcmd.BuildConfigFromFlags(*server, *kubeconfig))
	config.ContentType = *accept
	made := informer(*kind, config)
	before, started, processed := resident(), time.Now(), peer.CPU()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	go made.RunWithContext(ctx)
	// Not cache.WaitForCacheSync, which checks only ten times a second.
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

// resident returns the memory of this process in bytes, after it returned its garbage to the system.
func resident() int64 {
	runtime.GC()
	debug.FreeOSMemory()
	return status("VmRSS:")
}

// status returns the value of a line of /proc/self/status in bytes.
func status(name string) int64 {
	for line := range strings.Lines(string(peer.Of(os.ReadFile("/proc/self/status")))) {
		if fields := strings.Fields(line); fields[0] == name {
			return peer.Of(strconv.ParseInt(fields[1], 10, 64)) << 10
		}
	}
	return 0
}
