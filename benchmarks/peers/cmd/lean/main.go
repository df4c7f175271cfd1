// Command lean serves the same webhook, tuned by hand for speed, with the standard library and without generated code.
// It decodes the body in one pass into structs of the needed members only (oldObject is skipped, too), reuses buffers,
// and writes the operations of the patch as text. GOEXPERIMENT=jsonv2 builds the same source with a faster decoder.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"fleethook/benchmarks/peers/internal/peer"
)

const bodyLimit = 7 << 20

type review struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Request    *request `json:"request"`
}

type request struct {
	UID       string `json:"uid"`
	Operation string `json:"operation"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Kind      struct {
		Group   string `json:"group"`
		Version string `json:"version"`
		Kind    string `json:"kind"`
	} `json:"kind"`
	Object *deployment `json:"object"`
}

type deployment struct {
	Spec struct {
		Template struct {
			Spec struct {
				Containers []container `json:"containers"`
				Volumes    []struct{}  `json:"volumes"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

type container struct {
	Name string     `json:"name"`
	Args []string   `json:"args"`
	Env  []struct{} `json:"env"` // only their number is needed
}

// scratch has the buffers of one review; the next review reuses them.
type scratch struct {
	body   bytes.Buffer
	patch  []byte
	answer []byte
}

type server struct {
	scratches sync.Pool
	log       *slog.Logger
	patched   map[string]prometheus.Counter // by operation, looked up once: WithLabelValues hashes at each call
	refused   prometheus.Counter
	seconds   prometheus.Observer
}

func newServer(logger *slog.Logger) *server {
	reviews := prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: "reviews_total"}, []string{"operation", "outcome"},
	)
	seconds := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "review_duration_seconds",
		Buckets: []float64{
			0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
		},
	})
	prometheus.MustRegister(reviews, seconds)
	made := &server{
		scratches: sync.Pool{New: func() any { return new(scratch) }},
		log:       logger,
		patched:   map[string]prometheus.Counter{},
		refused:   reviews.WithLabelValues("", "refused"),
		seconds:   seconds,
	}
	for _, operation := range []string{"CREATE", "UPDATE"} {
		made.patched[operation] = reviews.WithLabelValues(operation, "patched")
	}
	return made
}

func (s *server) mutate(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	mine := s.scratches.Get().(*scratch)
	defer s.scratches.Put(mine)
	asked, status, err := read(&mine.body, w, r)
	if err != nil {
		s.refused.Inc()
		http.Error(w, err.Error(), status)
		return
	}
	var operations int
	mine.patch, operations = appendPatch(mine.patch[:0], asked.Object)
	mine.answer = appendAnswer(mine.answer[:0], asked.UID, mine.patch)
	w.Header()["Content-Type"] = jsonType
	w.Write(mine.answer)
	s.note(asked, operations, time.Since(started))
}

var jsonType = []string{"application/json"}

// read returns the request of a review, or an HTTP status and an error.
func read(body *bytes.Buffer, w http.ResponseWriter, r *http.Request) (*request, int, error) {
	contentType := r.Header.Get("Content-Type")
	if contentType != "application/json" {
		if media, _, err := mime.ParseMediaType(contentType); err != nil || media != "application/json" {
			return nil, http.StatusUnsupportedMediaType, errors.New("Content-Type must be application/json")
		}
	}
	body.Reset()
	if r.ContentLength > 0 && r.ContentLength <= bodyLimit {
		body.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, bodyLimit)); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, http.StatusRequestEntityTooLarge, err
		}
		return nil, http.StatusBadRequest, err
	}
	var asked review
	if err := json.Unmarshal(body.Bytes(), &asked); err != nil {
		return nil, http.StatusBadRequest, err
	}
	if asked.Kind != "AdmissionReview" || asked.Request == nil || asked.Request.Object == nil {
		return nil, http.StatusBadRequest, errors.New("the body is not an AdmissionReview with an object")
	}
	return asked.Request, 0, nil
}

// appendPatch appends the operations and returns their number. The values are constants that need no escaping.
func appendPatch(to []byte, object *deployment) ([]byte, int) {
	const pod = "/spec/template/spec"
	operations := 1
	to = append(to, `[{"op":"add","path":"/spec/replicas","value":`...)
	to = strconv.AppendInt(to, peer.Replicas, 10)
	to = append(to, '}')
	for i := range object.Spec.Template.Spec.Containers {
		one := &object.Spec.Template.Spec.Containers[i]
		if one.Name != peer.Container {
			continue
		}
		at := func(op string) {
			to = append(to, `,{"op":"`...)
			to = append(to, op...)
			to = append(to, `","path":"`+pod+`/containers/`...)
			to = strconv.AppendInt(to, int64(i), 10)
			operations++
		}
		at("add") // replaces an existing member
		to = append(to, `/image","value":"`+peer.Image+`"}`...)
		const variable = `{"name":"` + peer.EnvName + `","value":"` + peer.EnvValue + `"}`
		at("add")
		if len(one.Env) == 0 {
			to = append(to, `/env","value":[`+variable+`]}`...)
		} else {
			to = append(to, `/env/-","value":`+variable+`}`...)
		}
		if len(one.Args) > peer.ArgIndex {
			at("replace")
			to = append(to, `/args/`...)
			to = strconv.AppendInt(to, peer.ArgIndex, 10)
			to = append(to, `","value":"`+peer.Arg+`"}`...)
		}
	}
	const volume = `{"name":"` + peer.Volume + `","hostPath":{"path":"` + peer.HostPath + `"}}`
	if len(object.Spec.Template.Spec.Volumes) == 0 {
		to = append(to, `,{"op":"add","path":"`+pod+`/volumes","value":[`+volume+`]}]`...)
	} else {
		to = append(to, `,{"op":"add","path":"`+pod+`/volumes/-","value":`+volume+`}]`...)
	}
	return to, operations + 1
}

func appendAnswer(to []byte, uid string, patch []byte) []byte {
	quoted, _ := json.Marshal(uid) // a string never fails
	to = append(to, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":`...)
	to = append(to, quoted...)
	to = append(to, `,"allowed":true,"patchType":"JSONPatch","patch":"`...)
	to = base64.StdEncoding.AppendEncode(to, patch)
	return append(to, `"}}`...)
}

func (s *server) note(asked *request, operations int, spent time.Duration) {
	if counter := s.patched[asked.Operation]; counter != nil {
		counter.Inc()
	}
	s.seconds.Observe(spent.Seconds())
	s.log.LogAttrs(
		context.Background(), slog.LevelInfo, "review",
		slog.String("route", peer.Path), slog.String("uid", asked.UID), slog.Bool("allowed", true),
		slog.Int("patchOps", operations), slog.Float64("ms", float64(spent.Microseconds())/1e3),
		slog.String("gvk", asked.Kind.Group+"/"+asked.Kind.Version+"/"+asked.Kind.Kind),
		slog.String("namespace", asked.Namespace), slog.String("name", asked.Name),
		slog.String("operation", asked.Operation),
	)
}

// null reads the body and sends constant bytes, without any webhook logic. It measures the cost of HTTP and TLS, and
// the limit of the load generator.
func null(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header()["Content-Type"] = jsonType
	w.Write(constant)
}

// answer reads a review and sends the same answer to each one: no operation, or a constant patch. kube-apiserver
// requires the uid of the review. It is the first one in the body (k8s.io/api/admission/v1: AdmissionRequest).
func answer(patch []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, rest, _ := bytes.Cut(body, []byte(`"uid":"`))
		uid, _, _ := bytes.Cut(rest, []byte(`"`))
		w.Header()["Content-Type"] = jsonType
		if patch == nil {
			fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"%s","allowed":true}}`, uid)
			return
		}
		w.Write(appendAnswer(nil, string(uid), patch))
	}
}

// The patch of the constant policy of benchmarks/engines/admission_planes.py. All workloads there have annotations.
var annotation = []byte(`[{"op":"add","path":"/metadata/annotations/fleethook.io~1constant","value":"1"}]`)

var constant = appendAnswer(nil, "705ab4f5-6393-11e8-b7cc-42010a800002", []byte("[]"))

func main() {
	given := peer.ServerFlags()
	certificate := peer.Of(tls.LoadX509KeyPair(
		filepath.Join(given.CertDir, "tls.crt"), filepath.Join(given.CertDir, "tls.key"),
	))
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+peer.Path, newServer(slog.New(slog.NewJSONHandler(given.Log, nil))).mutate)
	mux.HandleFunc("POST /null", null)
	mux.HandleFunc("POST /noop", answer(nil))
	mux.HandleFunc("POST /annotate", answer(annotation))
	mux.Handle("GET /metrics", promhttp.Handler())
	listener := peer.Of(net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", given.Port)))
	serving := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}}
	fmt.Printf("serving on %d\n", listener.Addr().(*net.TCPAddr).Port)
	peer.Must(serving.Serve(tls.NewListener(listener, config)))
}
