package peer

import (
	"encoding/json"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Case is one function to measure, with the labels of its output line.
type Case struct {
	Labels map[string]any
	Call   func()
	Extra  func(count int) map[string]any // returns more figures of a turn of count calls; may be nil
}

func (c Case) extra(count int) map[string]any {
	if c.Extra == nil {
		return nil
	}
	return c.Extra(count)
}

// Rounds lets all cases take turns (A B C A B C), so that other load of the machine affects all of them, and prints a
// JSON line for each turn. It measures wall time and the process's CPU time, garbage collection included.
func Rounds(rounds int, turn time.Duration, cases []Case) {
	for _, one := range cases {
		one.Call() // fills caches and opens connections
		one.extra(1)
	}
	for round := range rounds {
		for _, one := range cases {
			runtime.GC() // the former case's garbage must not count for this one
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

// CPU returns the CPU time of this process, in user and system mode.
func CPU() time.Duration {
	var used syscall.Rusage
	Must(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Print writes the members of all parts as one JSON line.
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
