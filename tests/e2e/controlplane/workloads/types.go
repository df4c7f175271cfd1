package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// decoded lists the types that decode themselves; others that do are any JSON.
var decoded = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():   "Quantity",
	reflect.TypeFor[corev1.ResourceList](): "ResourceList",
	reflect.TypeFor[intstr.IntOrString]():  "IntOrString",
	reflect.TypeFor[metav1.Time]():         "Time",
	reflect.TypeFor[metav1.MicroTime]():    "MicroTime",
}

// decoding has the types of members by struct, such as apps/v1.DeploymentSpec, and by member.
type decoding struct {
	found map[string]map[string]string
	// strings has the names of string types.
	strings map[string]bool
	// versions has the API versions of packages.
	versions map[string]string
}

// printTypes reads one kind per line, such as "apps/v1 Deployment", and prints the structs that they reach.
func printTypes() error {
	known := scheme.Scheme
	if err := apiextensionsv1.AddToScheme(known); err != nil {
		return err
	}
	if err := apiregistrationv1.AddToScheme(known); err != nil {
		return err
	}
	types := decoding{map[string]map[string]string{}, map[string]bool{}, map[string]string{}}
	meta := reflect.TypeFor[metav1.ObjectMeta]().PkgPath()
	for kind, t := range known.AllKnownTypes() {
		// Some versions also have types of other packages.
		if strings.HasSuffix(t.PkgPath(), "/"+kind.Version) && t.PkgPath() != meta && kind.Kind != "WatchEvent" {
			if first, ok := types.versions[t.PkgPath()]; !ok || kind.GroupVersion().String() < first {
				types.versions[t.PkgPath()] = kind.GroupVersion().String()
			}
		}
	}
	types.add(reflect.TypeFor[metav1.ObjectMeta]())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		version, kind, _ := strings.Cut(lines.Text(), " ")
		t, ok := known.AllKnownTypes()[schema.FromAPIVersionAndKind(version, kind)]
		if !ok {
			return fmt.Errorf("%s is not known", lines.Text())
		}
		if name := types.add(t); name != version+"."+kind {
			return fmt.Errorf("%s has the name %s", lines.Text(), name)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	for name := range types.strings {
		if _, ok := types.found[name]; ok {
			return fmt.Errorf("%s is a string and a struct", name)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(types.found)
}

func (types decoding) expression(t reflect.Type) string {
	if name, ok := decoded[t]; ok {
		return name
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return "Raw"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return types.expression(t.Elem())
	case reflect.Slice:
		return "[]" + types.expression(t.Elem())
	case reflect.Map:
		return "map[string]" + types.expression(t.Elem())
	case reflect.Struct:
		return types.add(t)
	case reflect.String:
		types.strings[t.String()] = true
		return t.String()
	default:
		return t.Kind().String()
	}
}

func (types decoding) add(t reflect.Type) string {
	version, ok := types.versions[t.PkgPath()]
	if !ok {
		directory, last := path.Split(t.PkgPath())
		version = path.Base(directory) + "/" + last
	}
	name := version + "." + t.Name()
	if _, ok := types.found[name]; !ok {
		types.found[name] = map[string]string{}
		types.addFields(t, types.found[name])
	}
	return name
}

func (types decoding) addFields(t reflect.Type, fields map[string]string) {
	for i := range t.NumField() {
		member := t.Field(i)
		name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
		switch {
		case member.Anonymous && name == "":
			types.addFields(member.Type, fields)
		case member.IsExported() && name != "" && name != "-":
			fields[name] = types.expression(member.Type)
		}
	}
}
