// Command conversions prints objects of built-in kinds as kube-apiserver converts them to the other served versions:
// one JSON line for each object and pair of versions. The objects are random ones, and those in the lines of stdin.
//
// Usage:
//
//	conversions <random objects of each kind> <objects
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strconv"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kubernetestesting "k8s.io/kubernetes/pkg/api/testing"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// kinds lists the kinds that kube-apiserver serves in several versions, with the group of their internal type.
var kinds = []struct {
	group, kind string
	served      []string
}{
	{"", "Event", []string{"v1", "events.k8s.io/v1"}},
	{"autoscaling", "HorizontalPodAutoscaler", []string{"autoscaling/v2", "autoscaling/v1"}},
	{"certificates.k8s.io", "ClusterTrustBundle", []string{"certificates.k8s.io/v1beta1", "certificates.k8s.io/v1alpha1"}},
	{"coordination.k8s.io", "LeaseCandidate", []string{"coordination.k8s.io/v1beta1", "coordination.k8s.io/v1alpha2"}},
	{"networking.k8s.io", "IPAddress", []string{"networking.k8s.io/v1", "networking.k8s.io/v1beta1"}},
	{"networking.k8s.io", "ServiceCIDR", []string{"networking.k8s.io/v1", "networking.k8s.io/v1beta1"}},
	{"resource.k8s.io", "DeviceClass", []string{"resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"}},
	{"resource.k8s.io", "DeviceTaintRule", []string{"resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"}},
	{"resource.k8s.io", "ResourceClaim", []string{"resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"}},
	{"resource.k8s.io", "ResourceClaimTemplate", []string{"resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"}},
	{"resource.k8s.io", "ResourceSlice", []string{"resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"}},
	{"storage.k8s.io", "VolumeAttributesClass", []string{"storage.k8s.io/v1", "storage.k8s.io/v1beta1"}},
}

// Case is one conversion.
type Case struct {
	Before runtime.Object `json:"before"`
	After  runtime.Object `json:"after"`
}

func main() {
	count := 0
	if len(os.Args) == 2 {
		count, _ = strconv.Atoi(os.Args[1])
	}
	if count < 1 || len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: conversions <random objects of each kind> <objects")
		os.Exit(2)
	}
	err := printRandom(count)
	if err == nil {
		err = printRead()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conversions:", err)
		os.Exit(1)
	}
}

// printRead prints the objects of stdin in all versions but their own.
func printRead() error {
	encoder := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, gvk, err := legacyscheme.Codecs.UniversalDeserializer().Decode(lines.Bytes(), nil, nil)
		if err != nil {
			return err
		}
		for _, kind := range kinds {
			if kind.kind != gvk.Kind {
				continue
			}
			if err := printConverted(encoder, before, gvk.GroupVersion().String(), kind.served, kind.kind); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

func printRandom(count int) error {
	encoder := json.NewEncoder(os.Stdout)
	for _, kind := range kinds {
		fill := fuzzer.FuzzerFor(kubernetestesting.FuzzerFuncs, rand.NewSource(1), legacyscheme.Codecs)
		for range count {
			object, err := legacyscheme.Scheme.New(schema.GroupVersion{Group: kind.group, Version: runtime.APIVersionInternal}.WithKind(kind.kind))
			if err != nil {
				return err
			}
			fill.Fill(object)
			for _, from := range kind.served {
				before, err := converted(object, from, kind.kind)
				if err != nil {
					return err
				}
				if err := printConverted(encoder, before, from, kind.served, kind.kind); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// printConverted prints an object in all versions but its own.
func printConverted(encoder *json.Encoder, before runtime.Object, from string, served []string, kind string) error {
	internal := schema.GroupVersion{Group: before.GetObjectKind().GroupVersionKind().Group, Version: runtime.APIVersionInternal}
	if kind == "Event" {
		internal.Group = ""
	}
	object, err := legacyscheme.Scheme.New(internal.WithKind(kind))
	if err != nil {
		return err
	}
	// Converts a copy: conversions share memory, and may change their input.
	if err := legacyscheme.Scheme.Convert(before.DeepCopyObject(), object, nil); err != nil {
		return err
	}
	for _, to := range served {
		if to == from {
			continue
		}
		after, err := converted(object.DeepCopyObject(), to, kind)
		if err != nil {
			return err
		}
		if err := encoder.Encode(Case{Before: before, After: after}); err != nil {
			return err
		}
	}
	return nil
}

// converted returns an internal object in a version without setting defaults, like ConvertToGVK of
// k8s.io/apiserver/pkg/admission/conversion.go.
func converted(object runtime.Object, version, kind string) (runtime.Object, error) {
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		return nil, err
	}
	made, err := legacyscheme.Scheme.New(gv.WithKind(kind))
	if err != nil {
		return nil, err
	}
	if err := legacyscheme.Scheme.Convert(object, made, nil); err != nil {
		return nil, err
	}
	made.GetObjectKind().SetGroupVersionKind(gv.WithKind(kind))
	return made, nil
}
