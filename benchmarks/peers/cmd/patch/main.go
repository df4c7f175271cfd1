// JSON Patch with evanphx/json-patch (which an apiserver applies patches with, in its version 4) and JSON differences
// with gomodules.xyz/jsonpatch (which controller-runtime makes patches with). Both take and return text.
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

// input is the object of the UPDATE review before and after our operations.
type input struct {
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	Patch  json.RawMessage `json:"patch"`
}

func main() {
	file := flag.String("inputs", "", "patch.json of inputs.py")
	rounds := flag.Int("rounds", 5, "turns of each way")
	turn := flag.Duration("turn", 400*time.Millisecond, "how long a turn is")
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
		// What is in the above for being text: to be taken off where the other side has decoded documents.
		named("decode", func() { var into any; peer.Must(json.Unmarshal(given.Before, &into)) }),
		named("encode", func() { peer.Of(json.Marshal(before)) }),
	})
}

func check(wanted, got []byte) {
	var left, right any
	peer.Must(json.Unmarshal(wanted, &left))
	peer.Must(json.Unmarshal(got, &right))
	if !reflect.DeepEqual(left, right) {
		peer.Must(errors.New("a patch does not lead where ours does"))
	}
}
