package main

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// restoreEmpty restores the types of empty tables, which Lua does not distinguish. The encoder writes each one as [].
// restoreEmpty turns it into {} if the arguments have an empty object at the same path, and removes it if they have
// neither an empty object nor an empty list there. Karmada does this with the same two libraries, in more passes over
// the text.
func restoreEmpty(text []byte, references []any) ([]byte, error) {
	if bytes.Equal(text, []byte("[]")) {
		return []byte("{}"), nil
	}
	was := map[string]string{} // by path without list indexes: "[]" or "{}"
	for _, reference := range references {
		known, err := json.Marshal(reference)
		if err != nil {
			return nil, err
		}
		visit(gjson.ParseBytes(known), nil, nil, func(place, _, empty string) { was[place] = empty })
	}
	var objects, unknown []string
	visit(gjson.ParseBytes(text), nil, nil, func(place, exact, empty string) {
		switch {
		case empty == "{}" || was[place] == "[]":
		case was[place] == "{}":
			objects = append(objects, exact)
		default:
			unknown = append(unknown, exact)
		}
	})
	var err error
	for _, exact := range objects {
		if text, err = sjson.SetRawBytes(text, exact, []byte("{}")); err != nil {
			return nil, err
		}
	}
	for i := range unknown { // from the end, so that the indexes of the others stay valid
		if text, err = sjson.DeleteBytes(text, unknown[len(unknown)-1-i]); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// visit tells of each empty list and object where it is: without and with positions in lists.
func visit(value gjson.Result, place, exact []string, found func(place, exact, empty string)) {
	isList, position := value.IsArray(), 0
	value.ForEach(func(key, child gjson.Result) bool {
		here, exactly := place, append(exact, strconv.Itoa(position))
		if !isList {
			name := gjson.Escape(key.String())
			here, exactly = append(place, name), append(exact, name)
		}
		position++
		if !child.IsArray() && !child.IsObject() {
			return true
		}
		if empty := child.Raw; empty == "[]" || empty == "{}" { // both encoders write no spaces
			found(strings.Join(here, "."), strings.Join(exactly, "."), empty)
			return true
		}
		visit(child, here, exactly, found)
		return true
	})
}
