// Command workloads prints facts about the Go types of the API, for the generators in schemas/.
//
// Usage:
//
//	workloads fields      print the fields of every struct that Deployment and StatefulSet reach, as JSON
//	workloads removed     print the releases that removed kinds, by version, as JSON
//	workloads quantities  read one quantity per line from stdin, print its stored forms as JSON lines
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func main() {
	commands := map[string]func() error{
		"fields": printFields, "quantities": printQuantities, "removed": printRemoved,
	}
	var command func() error
	if len(os.Args) == 2 {
		command = commands[os.Args[1]]
	}
	if command == nil {
		fmt.Fprintln(os.Stderr, "usage: workloads fields | workloads quantities <texts | workloads removed")
		os.Exit(2)
	}
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, "workloads:", err)
		os.Exit(1)
	}
}

// Field is one member of a struct. Members of embedded structs belong to the outer struct, as in encoding/json.
type Field struct {
	// Type is a Go type expression. It has the kind of named strings and integers, group.version.Name of structs, and
	// the names in leaves of types with an encoding of their own.
	Type string `json:"type"`
	// Omit is "empty" or "zero", as the json tag says, or absent.
	Omit string `json:"omit,omitempty"`
}

// leaves lists the types that encode themselves, or that kube-apiserver treats specially.
var leaves = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():   "Quantity",
	reflect.TypeFor[corev1.ResourceList](): "ResourceList",
	reflect.TypeFor[intstr.IntOrString]():  "IntOrString",
	reflect.TypeFor[metav1.Time]():         "Time",
	reflect.TypeFor[metav1.FieldsV1]():     "Raw",
}

type structs map[string]map[string]Field

func printFields() error {
	found := structs{}
	for _, root := range []any{appsv1.Deployment{}, appsv1.StatefulSet{}} {
		if _, err := found.expression(reflect.TypeOf(root)); err != nil {
			return err
		}
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	return encoder.Encode(found)
}

// expression returns the type expression of a type, and adds the structs that it reaches.
func (found structs) expression(t reflect.Type) (string, error) {
	if name, ok := leaves[t]; ok {
		return name, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return found.prefixed("*", t.Elem())
	case reflect.Slice:
		return found.prefixed("[]", t.Elem())
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return "", fmt.Errorf("%s: a map whose keys are not strings", t)
		}
		return found.prefixed("map[string]", t.Elem())
	case reflect.Struct:
		return found.add(t)
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		return t.Kind().String(), nil
	default:
		return "", fmt.Errorf("%s: kind %s is not known to this program", t, t.Kind())
	}
}

func (found structs) prefixed(prefix string, element reflect.Type) (string, error) {
	inner, err := found.expression(element)
	return prefix + inner, err
}

// add records a struct and returns its name, such as core.v1.Container.
func (found structs) add(t reflect.Type) (string, error) {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return "", fmt.Errorf("%s encodes itself: add it to leaves", t)
	}
	directory, version := path.Split(t.PkgPath())
	name := path.Base(directory) + "." + version + "." + t.Name()
	if _, ok := found[name]; ok {
		return name, nil
	}
	fields := map[string]Field{}
	found[name] = fields // before its fields, as a type may refer to itself
	return name, found.addFields(t, fields)
}

func (found structs) addFields(t reflect.Type, fields map[string]Field) error {
	for i := range t.NumField() {
		member := t.Field(i)
		name, options, _ := strings.Cut(member.Tag.Get("json"), ",")
		if member.Anonymous && name == "" {
			if err := found.addFields(member.Type, fields); err != nil {
				return err
			}
			continue
		}
		if !member.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			return fmt.Errorf("%s.%s has no JSON name", t, member.Name)
		}
		written, err := found.expression(member.Type)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t, member.Name, err)
		}
		fields[name] = Field{Type: written, Omit: omission(options)}
	}
	return nil
}

func omission(options string) string {
	for _, word := range []string{"omitzero", "omitempty"} {
		if strings.Contains(options, word) {
			return strings.TrimPrefix(word, "omit")
		}
	}
	return ""
}

// Stored has the forms in which kube-apiserver returns a quantity; both are absent for a text that is no quantity.
type Stored struct {
	Text string `json:"text"`
	// Plain is the form of a single quantity, such as emptyDir.sizeLimit.
	Plain string `json:"plain,omitempty"`
	// Listed is the form in a ResourceList, which defaulting rounds up to thousandths.
	Listed string `json:"listed,omitempty"`
}

func printQuantities() error {
	output := bufio.NewWriter(os.Stdout)
	defer output.Flush()
	encoder := json.NewEncoder(output)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		stored, err := store(lines.Text())
		if err != nil {
			return err
		}
		if err := encoder.Encode(stored); err != nil {
			return err
		}
	}
	return lines.Err()
}

// store passes a text through the steps of a request: JSON, defaulting, protobuf (etcd), JSON.
func store(text string) (Stored, error) {
	stored := Stored{Text: text}
	request, err := json.Marshal(text)
	if err != nil {
		return stored, err
	}
	var parsed resource.Quantity
	if parsed.UnmarshalJSON(request) != nil {
		return stored, nil
	}
	listed := parsed.DeepCopy()
	listed.RoundUp(resource.Milli) // SetDefaults_ResourceList, k8s.io/kubernetes/pkg/apis/core/v1/defaults.go
	if stored.Plain, err = reread(parsed); err != nil {
		return stored, err
	}
	stored.Listed, err = reread(listed)
	return stored, err
}

func reread(quantity resource.Quantity) (string, error) {
	data, err := quantity.Marshal()
	if err != nil {
		return "", err
	}
	var read resource.Quantity
	if err := read.Unmarshal(data); err != nil {
		return "", err
	}
	data, err = read.MarshalJSON()
	if err != nil {
		return "", err
	}
	var text string
	return text, json.Unmarshal(data, &text)
}
