// Command load is the load generator: N connections over TLS, each of which sends a request when the former one is
// answered. It sends the same bytes as kube-apiserver's client and does nothing else, so that it needs less CPU than
// any server of the comparison.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fleethook/benchmarks/peers/internal/peer"
)

type options struct {
	address  string
	requests [][]byte
	// verified has an answer for each request that passed all checks; equal answers need no more checks.
	verified []atomic.Pointer[[]byte]
	expect   string
	interval time.Duration // between two requests of a connection; 0 to send the next one after each answer
	fresh    bool
	config   *tls.Config
	from     time.Time // answers count from here until the end
	until    time.Time
}

// worker uses one connection after the other. No other goroutine reads its results before it ends.
type worker struct {
	*options
	connection *tls.Conn
	answers    *reader
	next       int // index of the next request
	latencies  []time.Duration
	handshakes int
	resumed    int
	curve      tls.CurveID
	version    uint16
	errors     int
	firstError error
}

func (w *worker) run() {
	due := time.Now()
	for {
		sent := w.wait(&due)
		if !sent.Before(w.until) {
			break
		}
		err := w.one()
		now := time.Now()
		counted := !now.Before(w.from) && now.Before(w.until)
		switch {
		case err != nil:
			// A failed request that was sent before the end counts, even if it failed after the end.
			if !now.Before(w.from) {
				w.errors++
				w.firstError = errors.Join(w.firstError, err)
			}
			w.close()
			if w.errors > 100 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		case counted:
			w.latencies = append(w.latencies, now.Sub(sent))
		}
	}
	w.close()
}

// wait returns when the next request is due: at once, or an interval after the former one was due. The worker skips
// requests that a late answer delayed, instead of sending them in a burst.
func (w *worker) wait(due *time.Time) time.Time {
	if w.interval == 0 {
		return time.Now()
	}
	*due = due.Add(w.interval)
	if behind := time.Since(*due); behind > w.interval {
		*due = due.Add(behind)
	}
	time.Sleep(time.Until(*due))
	return time.Now()
}

func (w *worker) one() error {
	if w.connection == nil {
		if err := w.connect(); err != nil {
			return err
		}
	}
	number := w.next
	w.next = (w.next + 1) % len(w.requests)
	if _, err := w.connection.Write(w.requests[number]); err != nil {
		return err
	}
	status, body, err := w.answers.next()
	if err != nil {
		return err
	}
	if w.fresh {
		w.close()
	}
	return w.verify(number, status, body)
}

func (w *worker) connect() error {
	plain, err := net.Dial("tcp", w.address)
	if err != nil {
		return err
	}
	w.connection = tls.Client(plain, w.config)
	if err := w.connection.Handshake(); err != nil {
		return err
	}
	state := w.connection.ConnectionState()
	w.handshakes++
	if state.DidResume {
		w.resumed++
	}
	w.curve, w.version = state.CurveID, state.Version
	if w.answers == nil {
		w.answers = &reader{}
	}
	w.answers.reset(w.connection)
	return nil
}

func (w *worker) close() {
	if w.connection != nil {
		w.connection.Close()
		w.connection = nil
	}
}

// verify checks an answer, unless the same bytes passed its checks before.
func (w *worker) verify(number, status int, body []byte) error {
	if status != 200 {
		return fmt.Errorf("status %d: %.200s", status, body)
	}
	if known := w.verified[number].Load(); known != nil && bytes.Equal(body, *known) {
		return nil
	}
	var answer struct {
		Response struct {
			UID        string
			Allowed    bool
			Patch      []byte
			Successful bool
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%w: %.200s", err, body)
	}
	said := answer.Response
	if w.expect == "admission" && !(said.Allowed && len(said.Patch) > 0) || w.expect == "interpreter" && !said.Successful {
		return fmt.Errorf("unexpected answer: %.200s", body)
	}
	kept := bytes.Clone(body)
	w.verified[number].Store(&kept)
	return nil
}

func main() {
	port := flag.Int("port", 0, "port on 127.0.0.1")
	path := flag.String("path", peer.Path, "path to post to; several, separated by commas, for the lines of the body in turn")
	body := flag.String("body", "", "file with a body in each line; connections send them in turn, each starts with another one")
	rate := flag.Float64("rate", 0, "requests per second over all connections; 0 to send the next one after each answer")
	authority := flag.String("ca", "", "file with the CA of the server's certificate")
	connections := flag.Int("connections", 16, "concurrent connections")
	seconds := flag.Float64("seconds", 5, "duration of the measurement")
	warmup := flag.Float64("warmup", 1, "duration of the load before the measurement")
	fresh := flag.Bool("new-connections", false, "a connection for each request, closed by the server")
	resume := flag.Bool("resume", false, "with --new-connections: resume TLS sessions")
	curve := flag.String("curve", "", "the only key exchange to offer (x25519, p256); the default offers the same ones as kube-apiserver")
	expect := flag.String("expect", "admission", "required type of answers: admission, interpreter or any")
	pids := flag.String("pid", "", "process ids of the server, separated by commas: report its CPU and memory, too")
	flag.Parse()
	debug.SetGCPercent(800) // this program makes almost no garbage, so collections would only delay requests

	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(peer.Of(os.ReadFile(*authority))) {
		peer.Must(errors.New("no certificate in --ca"))
	}
	config := &tls.Config{ServerName: "localhost", NextProtos: []string{"http/1.1"}}
	// The client verifies a certificate once and compares it later: with short connections the client would otherwise
	// need as much CPU as the server. Every handshake still proves that the server has the key.
	config.InsecureSkipVerify, config.VerifyPeerCertificate = true, verifyOnce(x509.VerifyOptions{Roots: pool, DNSName: "localhost"})
	switch *curve {
	case "x25519":
		config.CurvePreferences = []tls.CurveID{tls.X25519}
	case "p256":
		config.CurvePreferences = []tls.CurveID{tls.CurveP256}
	}
	if *resume {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	var requests [][]byte
	paths := strings.Split(*path, ",")
	for number, one := range bytes.Split(peer.Of(os.ReadFile(*body)), []byte("\n")) {
		requests = append(requests, request(paths[number%len(paths)], one, *fresh))
	}
	given := &options{
		address: fmt.Sprintf("127.0.0.1:%d", *port), requests: requests, verified: make([]atomic.Pointer[[]byte], len(requests)),
		expect: *expect, fresh: *fresh, config: config,
	}
	if *rate > 0 {
		given.interval = duration(float64(*connections) / *rate)
	}
	workers := make([]*worker, *connections)
	for i := range workers {
		// The capacity is enough for all latencies, so that no slice is copied during the measurement.
		workers[i] = &worker{options: given, next: i * len(requests) / *connections, latencies: make([]time.Duration, 0, int(*seconds*60_000)/(*connections)+1000)}
		if !*fresh {
			peer.Must(workers[i].connect())
		}
	}
	given.from = time.Now().Add(duration(*warmup))
	given.until = given.from.Add(duration(*seconds))
	var running sync.WaitGroup
	for _, one := range workers {
		running.Go(one.run)
	}
	time.Sleep(time.Until(given.from))
	began, own, theirs := time.Now(), peer.CPU(), readings(*pids)
	time.Sleep(time.Until(given.until))
	took, own, theirs := time.Since(began), peer.CPU()-own, readings(*pids).since(theirs)
	running.Wait()
	report(workers, duration(*seconds), float64(own)/float64(took), theirs)
}

func verifyOnce(options x509.VerifyOptions) func([][]byte, [][]*x509.Certificate) error {
	var known sync.Map
	return func(raw [][]byte, _ [][]*x509.Certificate) error {
		if _, found := known.Load(string(raw[0])); found {
			return nil
		}
		certificate, err := x509.ParseCertificate(raw[0])
		if err != nil {
			return err
		}
		if _, err := certificate.Verify(options); err != nil {
			return err
		}
		known.Store(string(raw[0]), true)
		return nil
	}
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// request returns an HTTP request with the headers of kube-apiserver.
func request(path string, body []byte, last bool) []byte {
	var made bytes.Buffer
	fmt.Fprintf(&made, "POST %s?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n", path)
	made.WriteString("Accept: application/json\r\nUser-Agent: kube-apiserver-admission\r\n")
	if last {
		// The server closes the connection first, so that the client's port is free again.
		made.WriteString("Connection: close\r\n")
	}
	fmt.Fprintf(&made, "Content-Length: %d\r\n\r\n", len(body))
	made.Write(body)
	return made.Bytes()
}

func report(workers []*worker, window time.Duration, ownCPU float64, theirs usage) {
	var all []time.Duration
	failed, handshakes, resumed := 0, 0, 0
	var first error
	for _, one := range workers {
		all = append(all, one.latencies...)
		failed += one.errors
		handshakes += one.handshakes
		resumed += one.resumed
		if first == nil {
			first = one.firstError
		}
	}
	slices.Sort(all)
	at := func(part float64) float64 {
		if len(all) == 0 {
			return 0
		}
		return float64(all[min(len(all)-1, int(float64(len(all))*part))].Microseconds()) / 1e3
	}
	line := map[string]any{
		"requests": len(all), "errors": failed, "requests_per_second": float64(len(all)) / window.Seconds(),
		"p50_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "p999_ms": at(0.999), "max_ms": at(1),
		"client_cpu": ownCPU, "connections": len(workers), "handshakes": handshakes, "resumed": resumed,
		"tls": tls.VersionName(workers[0].version), "key_exchange": workers[0].curve.String(),
	}
	if first != nil {
		line["first_error"] = strings.SplitN(first.Error(), "\n", 2)[0]
	}
	if theirs.processes > 0 && len(all) > 0 {
		line["cpu_us"] = float64(theirs.cpu.Nanoseconds()) / 1e3 / float64(len(all))
		line["server_cpu"] = theirs.cpu.Seconds() / window.Seconds()
		line["rss_mib"] = float64(theirs.resident) / (1 << 20)
	}
	peer.Print(line)
	if failed > 0 {
		os.Exit(1)
	}
}

// usage is the CPU time and the memory of processes.
type usage struct {
	processes int
	cpu       time.Duration
	resident  int64
}

func (u usage) since(before usage) usage {
	u.cpu -= before.cpu
	return u
}

func readings(pids string) usage {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go runs on
	var found usage
	for _, pid := range strings.FieldsFunc(pids, func(r rune) bool { return r == ',' }) {
		stat := string(peer.Of(os.ReadFile("/proc/" + pid + "/stat")))
		fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
		found.processes++
		for _, field := range fields[11:13] {
			found.cpu += time.Duration(peer.Of(strconv.ParseInt(field, 10, 64))) * tick
		}
		found.resident += peer.Of(strconv.ParseInt(fields[21], 10, 64)) * int64(os.Getpagesize())
	}
	return found
}
