package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http/httputil"
	"strconv"
)

// reader reads answers from a connection. Unlike net/http, it does not allocate memory for each answer.
type reader struct {
	source *bufio.Reader
	body   []byte
}

func (r *reader) reset(from io.Reader) {
	if r.source == nil {
		r.source = bufio.NewReaderSize(from, 64<<10)
		return
	}
	r.source.Reset(from)
}

var (
	lengthName  = []byte("content-length:")
	chunkedName = []byte("transfer-encoding:")
)

// next returns the status and the body of one answer. The body is valid until the next call.
func (r *reader) next() (int, []byte, error) {
	line, err := r.source.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, nil, fmt.Errorf("not an HTTP/1.1 response: %.40q", line)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, nil, err
	}
	length, chunked := -1, false
	for {
		if line, err = r.source.ReadSlice('\n'); err != nil {
			return 0, nil, err
		}
		if len(line) <= 2 {
			break
		}
		switch {
		case has(line, lengthName):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(lengthName):]))); err != nil {
				return 0, nil, err
			}
		case has(line, chunkedName):
			chunked = true
		}
	}
	if chunked {
		return r.chunks(status)
	}
	if length < 0 {
		return 0, nil, fmt.Errorf("status %d without a Content-Length", status)
	}
	r.body = append(r.body[:0], make([]byte, length)...)
	_, err = io.ReadFull(r.source, r.body)
	return status, r.body, err
}

// chunks reads a chunked body, which net/http sends if a handler wrote more bytes than its buffer has.
func (r *reader) chunks(status int) (int, []byte, error) {
	content := bytes.NewBuffer(r.body[:0])
	if _, err := content.ReadFrom(httputil.NewChunkedReader(r.source)); err != nil {
		return 0, nil, err
	}
	_, err := r.source.Discard(2) // the empty line at its end; servers send no trailers
	r.body = content.Bytes()
	return status, r.body, err
}

// has reports whether a line starts with a name, in upper or lower case.
func has(line, name []byte) bool {
	return len(line) > len(name) && bytes.EqualFold(line[:len(name)], name)
}
