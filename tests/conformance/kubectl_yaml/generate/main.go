// Command generate reads a list of texts, and writes the objects that kubectl reads in each: it decodes like kubectl's
// StreamVisitor, and encodes like its REST client.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

type answer struct {
	Text    string            `json:"text"`
	Objects []json.RawMessage `json:"objects"`
	Failed  bool              `json:"failed"`
}

func read(text string) answer {
	found := answer{Text: text, Objects: []json.RawMessage{}}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		document := runtime.RawExtension{}
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return found
		}
		raw := bytes.TrimSpace(document.Raw)
		if err == nil && (len(raw) == 0 || bytes.Equal(raw, []byte("null"))) {
			continue
		}
		var encoded []byte
		if err == nil {
			encoded, err = encode(raw)
		}
		if err != nil {
			found.Failed = true
			return found
		}
		found.Objects = append(found.Objects, encoded)
	}
}

func encode(raw []byte) ([]byte, error) {
	object, _, err := unstructured.UnstructuredJSONScheme.Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

func main() {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		panic(err)
	}
	answers := make([]answer, 0, len(texts))
	for _, text := range texts {
		answers = append(answers, read(text))
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}
