package main

import "testing"

func TestEmptyTablesBecomeWhatTheyWereInTheArguments(t *testing.T) {
	reference := map[string]any{
		"spec": map[string]any{
			"volumes": []any{map[string]any{"emptyDir": map[string]any{}}, map[string]any{"name": "b"}},
			"args":    []any{}, "a.b": map[string]any{},
		},
	}
	for given, wanted := range map[string]string{
		`[]`:                      `{}`,
		`{"spec":{"args":[]}}`:    `{"spec":{"args":[]}}`,
		`{"spec":{"a.b":[]}}`:     `{"spec":{"a.b":{}}}`,
		`{"spec":{"unknown":[]}}`: `{"spec":{}}`,
		`{"spec":{"volumes":[{"name":"b"},{"emptyDir":[],"name":"c"}]}}`:     `{"spec":{"volumes":[{"name":"b"},{"emptyDir":{},"name":"c"}]}}`,
		`{"spec":{"other":[{"x":[]},{"x":[],"y":1},[]],"volumes":["kept"]}}`: `{"spec":{"other":[{},{"y":1}],"volumes":["kept"]}}`,
	} {
		got, err := restoreEmpty([]byte(given), []any{reference})
		if err != nil || string(got) != wanted {
			t.Errorf("%s: %s, %v instead of %s", given, got, err, wanted)
		}
	}
}
