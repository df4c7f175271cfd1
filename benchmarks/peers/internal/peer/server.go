// Package peer has the code that the programs share: the flags of a server, the mutation, and a loop that measures.
package peer

import (
	"flag"
	"log"
	"os"
	"runtime"
	"runtime/debug"
)

// Path is the URL path of the webhook.
const Path = "/mutate-apps-v1-deployment"

// The values of the mutation, the same for all servers and equal to the overrides of benchmarks/reviews.py.
const (
	Container = "app"
	Image     = "registry.hangzhou.example.com/shop/app:1.14.2"
	EnvName   = "REGION"
	EnvValue  = "hangzhou"
	ArgIndex  = 2
	Arg       = "--log-level=debug"
	Volume    = "logs"
	HostPath  = "/data/logs"
	Replicas  = 5
)

// Server has the values of a webhook server's flags.
type Server struct {
	CertDir string
	Port    int
	Log     *os.File
}

// ServerFlags reads the flags of a server and sets up the Go runtime.
func ServerFlags() Server {
	certDir := flag.String("cert-dir", "", "directory with tls.crt and tls.key")
	port := flag.Int("port", 0, "port on 127.0.0.1, 0 for a free one")
	logTo := flag.String("log", "/dev/stderr", "file for one line per review; the server also writes each line if it is /dev/null")
	procs := flag.Int("procs", 0, "GOMAXPROCS; 0 for the default, the number of cores that the process may use")
	gogc := flag.Int("gogc", 0, "GOGC in percent; 0 for the default of 100")
	flag.Parse()
	if *procs > 0 {
		runtime.GOMAXPROCS(*procs)
	}
	if *gogc > 0 {
		debug.SetGCPercent(*gogc)
	}
	file, err := os.OpenFile(*logTo, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	Must(err)
	return Server{CertDir: *certDir, Port: *port, Log: file}
}

// Must ends the program on an error.
func Must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Of returns a value, or ends the program on an error.
func Of[T any](value T, err error) T {
	Must(err)
	return value
}
