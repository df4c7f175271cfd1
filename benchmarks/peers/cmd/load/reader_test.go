package main

import (
	"strings"
	"testing"
)

func TestAnswersAreReadOneAfterTheOther(t *testing.T) {
	answers := &reader{}
	answers.reset(strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst" +
		"HTTP/1.1 503 Busy\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nsec\r\n3\r\nond\r\n0\r\n\r\n" +
		"HTTP/1.1 200 OK\r\ncontent-length:  0\r\n\r\n" + "HTTP/1.1 200 OK\r\n\r\n"))
	for _, wanted := range []struct {
		status int
		body   string
	}{{200, "first"}, {503, "second"}, {200, ""}} {
		status, body, err := answers.next()
		if err != nil || status != wanted.status || string(body) != wanted.body {
			t.Errorf("%d %q %v instead of %v", status, body, err, wanted)
		}
	}
	if _, _, err := answers.next(); err == nil {
		t.Error("an answer without a length was read")
	}
}
