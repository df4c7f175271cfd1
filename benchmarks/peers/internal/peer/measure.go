package peer

import (
	"encoding/json"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Case is one way to do something, and what is said of it in its line besides the figures.
type Case struct {
	Labels map[string]any
	Call   func()
	Extra  func(count int) map[string]any // more figures of a turn of that many calls; may be nil
}

func (c Case) extra(count int) map[string]any {
	if c.Extra == nil {
		return nil
	}
	return c.Extra(count)
}

// Rounds lets all cases take turns (A B C A B C), so that what else the machine does falls on all of them, and prints
// a JSON line for each turn. Time is read twice: on the wall, and as CPU of the process, garbage collection included.
func Rounds(rounds int, turn time.Duration, cases []Case) {
	for _, one := range cases {
		one.Call() // caches are filled, connections opened
		one.extra(1)
	}
	for round := range rounds {
		for _, one := range cases {
			runtime.GC() // nobody pays for what the one before has left
			count, started, cpu := 0, time.Now(), CPU()
			for time.Since(started) < turn {
				one.Call()
				count++
			}
			wall, spent := time.Since(started), CPU()-cpu
			Print(one.Labels, one.extra(count), map[string]any{
				"round": round, "count": count,
				"ns_per_op":     float64(wall.Nanoseconds()) / float64(count),
				"cpu_ns_per_op": float64(spent.Nanoseconds()) / float64(count),
			})
		}
	}
}

// CPU returns what this process has used, in user and system mode.
func CPU() time.Duration {
	var used syscall.Rusage
	Must(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Print writes one JSON line of all the members.
func Print(parts ...map[string]any) {
	line := map[string]any{"go": runtime.Version()}
	for _, part := range parts {
		for name, value := range part {
			line[name] = value
		}
	}
	Must(json.NewEncoder(os.Stdout).Encode(line))
}

// ReadJSON decodes a file.
func ReadJSON(path string, into any) {
	Must(json.Unmarshal(Of(os.ReadFile(path)), into))
}
