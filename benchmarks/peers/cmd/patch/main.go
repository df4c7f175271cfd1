// Command patch measures evanphx/json-patch, whose version 4 kube-apiserver applies patches with, and
// gomodules.xyz/jsonpatch, which controller-runtime creates patches with. Both take and return text.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"reflect"
	"time"

	evanphx "github.com/evanphx/json-patch/v5"
	"gomodules.xyz/jsonpatch/v2"

	"fleethook/benchmarks/peers/internal/peer"
)

// input has the object of the UPDATE review before and after fleethook's operations.
type input struct {
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	Patch  json.RawMessage `json:"patch"`
}

func main() {
	file := flag.String("inputs", "", "patch.json of inputs.py")
	rounds := flag.Int("rounds", 5, "turns of each case")
	turn := flag.Duration("turn", 400*time.Millisecond, "duration of a turn")
	flag.Parse()
	var given input
	peer.ReadJSON(*file, &given)
	decoded := peer.Of(evanphx.DecodePatch(given.Patch))
	var before any
	peer.Must(json.Unmarshal(given.Before, &before))

	check(given.After, peer.Of(decoded.Apply(given.Before)))
	made := peer.Of(json.Marshal(peer.Of(jsonpatch.CreatePatch(given.Before, given.After))))
	check(given.After, peer.Of(peer.Of(evanphx.DecodePatch(made)).Apply(given.Before)))

	named := func(name string, call func()) peer.Case {
		return peer.Case{Labels: map[string]any{"benchmark": "patch", "name": name, "bytes": len(given.Before)}, Call: call}
	}
	peer.Rounds(*rounds, *turn, []peer.Case{
		named("apply, patch decoded once", func() { peer.Of(decoded.Apply(given.Before)) }),
		named("apply, from the operations", func() { peer.Of(peer.Of(evanphx.DecodePatch(given.Patch)).Apply(given.Before)) }),
		named("diff", func() { peer.Of(jsonpatch.CreatePatch(given.Before, given.After)) }),
		// The cases above include decoding and encoding. Subtract these two to compare with a program that keeps
		// documents decoded.
		named("decode", func() { var into any; peer.Must(json.Unmarshal(given.Before, &into)) }),
		named("encode", func() { peer.Of(json.Marshal(before)) }),
	})
}

func check(wanted, got []byte) {
	var left, right any
	peer.Must(json.Unmarshal(wanted, &left))
	peer.Must(json.Unmarshal(got, &right))
	if !reflect.DeepEqual(left, right) {
		peer.Must(errors.New("the patched object differs from fleethook's"))
	}
}
