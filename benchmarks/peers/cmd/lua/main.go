// Command lua runs Lua scripts as Karmada's interpreter does (pkg/resourceinterpreter/customized/declarative/luavm),
// with gopher-lua: a pool of machines, each call compiles and runs the script, arguments and results go through JSON. A
// second variant compiles the script once. The program reads lua.json of inputs.py, and compares each result with
// fleethook's.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	luajson "layeh.com/gopher-json"

	"fleethook/benchmarks/peers/internal/peer"
)

type input struct {
	Name      string            `json:"name"`
	Function  string            `json:"function"`
	Script    string            `json:"script"`
	Arguments []json.RawMessage `json:"arguments"`
	Expected  any               `json:"expected"`
}

// item is Karmada's AggregatedStatusItem.
type item struct {
	ClusterName string                `json:"clusterName"`
	Status      *runtime.RawExtension `json:"status,omitempty"`
	Applied     bool                  `json:"applied,omitempty"`
	Health      string                `json:"health,omitempty"`
}

// refused lists the functions that Karmada removes from the globals of scripts.
const refused = "collectgarbage dofile getfenv getmetatable load loadfile loadstring rawequal rawget rawset setfenv " +
	"setmetatable module newproxy"

func newMachine() *lua.LState {
	machine := lua.NewState(lua.Options{SkipOpenLibs: true})
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
		lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath, lua.OsLibName: lua.OpenOs,
	} {
		peer.Must(machine.CallByParam(lua.P{Fn: machine.NewFunction(open), Protect: true}, lua.LString(name)))
	}
	for _, name := range strings.Fields(refused) {
		machine.SetGlobal(name, lua.LNil)
	}
	return machine
}

// pool lends machines. Karmada's pool has ten by default, and creates more if all of them are in use.
type pool chan *lua.LState

func (p pool) get() *lua.LState {
	select {
	case machine := <-p:
		return machine
	default:
		return newMachine()
	}
}

func (p pool) put(machine *lua.LState) {
	select {
	case p <- machine:
	default:
		machine.Close()
	}
}

// call runs the script, which defines the function, and then calls the function.
func call(machines pool, script func(*lua.LState) error, function string, arguments []any) (lua.LValue, error) {
	machine := machines.get()
	defer machines.put(machine)
	machine.SetTop(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	machine.SetContext(ctx)
	if err := script(machine); err != nil {
		return nil, err
	}
	values := make([]lua.LValue, len(arguments))
	for i, argument := range arguments {
		// Objects and lists of structs go through JSON; Karmada converts only bare maps and scalars by hand.
		text, err := json.Marshal(argument)
		if err != nil {
			return nil, err
		}
		if values[i], err = luajson.Decode(machine, text); err != nil {
			return nil, err
		}
	}
	called := lua.P{Fn: machine.GetGlobal(function), NRet: 1, Protect: true}
	if err := machine.CallByParam(called, values...); err != nil {
		return nil, err
	}
	result := machine.Get(1)
	machine.SetTop(0)
	return result, nil
}

// interpret calls the function and converts its result: an object, or a boolean of a health check.
func interpret(machines pool, script func(*lua.LState) error, function string, arguments, references []any) (any, error) {
	result, err := call(machines, script, function, arguments)
	if err != nil {
		return nil, err
	}
	if healthy, is := result.(lua.LBool); is {
		return bool(healthy), nil
	}
	table, is := result.(*lua.LTable)
	if !is {
		return nil, fmt.Errorf("%s returned a %s", function, result.Type())
	}
	text, err := luajson.Encode(table)
	if err != nil {
		return nil, err
	}
	if text, err = restoreEmpty(text, references); err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	return object, json.Unmarshal(text, object)
}

func compile(script string) *lua.FunctionProto {
	chunk := peer.Of(parse.Parse(strings.NewReader(script), "<string>"))
	return peer.Of(lua.Compile(chunk, "<string>"))
}

func (i input) typed() (arguments []any) {
	for number, text := range i.Arguments {
		if i.Function == "AggregateStatus" && number == 1 {
			var items []item
			peer.Must(json.Unmarshal(text, &items))
			arguments = append(arguments, items)
			continue
		}
		object := &unstructured.Unstructured{}
		peer.Must(json.Unmarshal(text, object))
		arguments = append(arguments, object)
	}
	return arguments
}

// check compares the result with the expected one as JSON. Lua does not distinguish an empty list from an empty object,
// so check treats both as absent.
func (i input) check(result any) {
	var got any
	peer.Must(json.Unmarshal(peer.Of(json.Marshal(result)), &got))
	if !reflect.DeepEqual(withoutEmpty(got), withoutEmpty(i.Expected)) {
		peer.Must(fmt.Errorf("%s: %v is not %v", i.Name, got, i.Expected))
	}
}

func withoutEmpty(value any) any {
	switch typed := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, child := range typed {
			if child = withoutEmpty(child); child != nil {
				kept[name] = child
			}
		}
		if len(kept) > 0 {
			return kept
		}
		return nil
	case []any:
		if len(typed) == 0 {
			return nil
		}
		kept := make([]any, len(typed))
		for i, child := range typed {
			kept[i] = withoutEmpty(child)
		}
		return kept
	}
	return value
}

func main() {
	file := flag.String("inputs", "", "lua.json of inputs.py")
	rounds := flag.Int("rounds", 5, "turns of each case")
	turn := flag.Duration("turn", 400*time.Millisecond, "duration of a turn")
	flag.Parse()
	var inputs []input
	peer.ReadJSON(*file, &inputs)
	var cases []peer.Case
	for _, one := range inputs {
		arguments, prototype, machines := one.typed(), compile(one.Script), make(pool, 10)
		var references []any
		if one.Function == "Retain" { // the only operation here for which Karmada reads the arguments again
			references = arguments
		}
		ways := map[string]func(*lua.LState) error{
			"compiled each call": func(machine *lua.LState) error { return machine.DoString(one.Script) },
			"compiled once": func(machine *lua.LState) error {
				machine.Push(machine.NewFunctionFromProto(prototype))
				return machine.PCall(0, lua.MultRet, nil)
			},
		}
		for _, way := range []string{"compiled each call", "compiled once"} {
			run := func() any {
				return peer.Of(interpret(machines, ways[way], one.Function, arguments, references))
			}
			one.check(run())
			cases = append(cases, peer.Case{
				Labels: map[string]any{"benchmark": "lua", "name": one.Name, "way": way}, Call: func() { run() },
			})
		}
	}
	peer.Rounds(*rounds, *turn, cases)
}
