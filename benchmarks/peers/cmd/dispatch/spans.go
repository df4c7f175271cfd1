package main

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"fleethook/benchmarks/peers/internal/peer"
)

var ever = context.Background()

const tick = time.Millisecond

func synced(has func() bool) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) { return has(), nil }
}

// spans records start and end of each call of a hook, from the request to the end of the response body. The rest of an
// admission's time is the dispatcher's own.
type spans struct {
	lock   sync.Mutex
	called [][2]time.Time
	spent  time.Duration // time outside of calls, of all admissions in this turn
}

// resolver wraps the transport of each client that the plugin makes.
func (s *spans) resolver(from webhookutil.AuthenticationInfoResolver) webhookutil.AuthenticationInfoResolver {
	return &webhookutil.AuthenticationInfoResolverDelegator{
		ClientConfigForFunc: func(hostPort string) (*rest.Config, error) {
			config, err := from.ClientConfigFor(hostPort)
			if err == nil {
				config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &timed{s, next} })
			}
			return config, err
		},
		ClientConfigForServiceFunc: from.ClientConfigForService,
	}
}

type timed struct {
	spans *spans
	next  http.RoundTripper
}

func (t *timed) RoundTrip(request *http.Request) (*http.Response, error) {
	started := time.Now()
	response, err := t.next.RoundTrip(request)
	if err == nil {
		response.Body = &body{ReadCloser: response.Body, ended: sync.OnceFunc(func() { t.spans.note(started) })}
	}
	return response, err
}

type body struct {
	io.ReadCloser
	ended func()
}

func (b *body) Read(into []byte) (int, error) {
	count, err := b.ReadCloser.Read(into)
	if err != nil {
		b.ended()
	}
	return count, err
}

func (b *body) Close() error {
	b.ended()
	return b.ReadCloser.Close()
}

func (s *spans) note(started time.Time) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.called = append(s.called, [2]time.Time{started, time.Now()})
}

// busy returns the time in which at least one call was in progress, and clears the records.
func (s *spans) busy() time.Duration {
	s.lock.Lock()
	defer s.lock.Unlock()
	slices.SortFunc(s.called, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	var total time.Duration
	var until time.Time
	for _, one := range s.called {
		if one[0].Before(until) {
			one[0] = until
		}
		if one[1].After(one[0]) {
			total += one[1].Sub(one[0])
			until = one[1]
		}
	}
	s.called = s.called[:0]
	return total
}

// beside adds to a case the time that each admission took outside of its calls.
func (s *spans) beside(one peer.Case) peer.Case {
	inner := one.Call
	one.Call = func() {
		started := time.Now()
		inner()
		s.spent += time.Since(started) - s.busy()
	}
	one.Extra = func(count int) map[string]any {
		spent := s.spent
		s.spent = 0
		return map[string]any{"beside_calls_ns_per_op": float64(spent.Nanoseconds()) / float64(count)}
	}
	return one
}
