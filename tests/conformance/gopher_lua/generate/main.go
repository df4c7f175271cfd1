// Command generate runs Lua scripts with gopher-lua: it reads a list of names and scripts, and writes the list of lines
// that each script returns.
package main

import (
	"context"
	"encoding/json"
	"os"
	"time"

	lua "github.com/yuin/gopher-lua"
)

type script struct {
	Name   string `json:"name"`
	Script string `json:"script"`
}

// answer runs a script and returns its lines. If the script fails or does not end in time, it returns "failed" and the
// reason.
func answer(text string) []string {
	machine := lua.NewState()
	defer machine.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	machine.SetContext(ctx)
	if err := machine.DoString(text); err != nil {
		return []string{"failed", err.Error()}
	}
	lines := []string{}
	machine.Get(-1).(*lua.LTable).ForEach(func(_, line lua.LValue) { lines = append(lines, line.String()) })
	return lines
}

func main() {
	var scripts []script
	if err := json.NewDecoder(os.Stdin).Decode(&scripts); err != nil {
		panic(err)
	}
	answers := map[string][]string{}
	for _, one := range scripts {
		answers[one.Name] = answer(one.Script)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}
