package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
)

// printRemoved prints the releases that removed kinds, by API version and kind.
func printRemoved() error {
	known := scheme.Scheme
	if err := apiextensionsv1beta1.AddToScheme(known); err != nil {
		return err
	}
	if err := apiregistrationv1beta1.AddToScheme(known); err != nil {
		return err
	}
	found := map[string]map[string]string{}
	for kind, t := range known.AllKnownTypes() {
		removed, ok := reflect.New(t).Interface().(interface{ APILifecycleRemoved() (int, int) })
		if !ok || strings.HasSuffix(kind.Kind, "List") {
			continue
		}
		version := kind.GroupVersion().String()
		if found[version] == nil {
			found[version] = map[string]string{}
		}
		major, minor := removed.APILifecycleRemoved()
		found[version][kind.Kind] = fmt.Sprintf("%d.%d", major, minor)
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}
