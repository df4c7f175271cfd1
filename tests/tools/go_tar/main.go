// Command go_tar lists tar archives with Go's archive/tar. It reads archives, each after its length in four bytes, and
// writes a line of JSON for each. Names and link targets are hexadecimal, because JSON cannot represent bytes.
package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
)

type member struct {
	Name   string `json:"name"`
	Kind   int    `json:"kind"`
	Size   int64  `json:"size"`
	Link   string `json:"link"`
	Sha256 string `json:"sha256"`
}

type listing struct {
	Members []member `json:"members"`
	Error   string   `json:"error"`
}

// maxBody limits the bytes read of one member, because a sparse file may declare any size.
const maxBody = 1 << 20

func list(archive []byte) listing {
	found := listing{Members: []member{}}
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			found.Error = err.Error()
			return found
		}
		digest := sha256.New()
		if _, err := io.Copy(digest, io.LimitReader(reader, maxBody)); err != nil {
			found.Error = err.Error()
			return found
		}
		found.Members = append(found.Members, member{
			Name: hex.EncodeToString([]byte(header.Name)), Kind: int(header.Typeflag), Size: header.Size,
			Link: hex.EncodeToString([]byte(header.Linkname)), Sha256: hex.EncodeToString(digest.Sum(nil)),
		})
	}
}

func main() {
	input, output := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	defer output.Flush()
	encoder := json.NewEncoder(output)
	for {
		var length uint32
		if err := binary.Read(input, binary.BigEndian, &length); err != nil {
			return
		}
		archive := make([]byte, length)
		if _, err := io.ReadFull(input, archive); err != nil {
			panic(err)
		}
		if err := encoder.Encode(list(archive)); err != nil {
			panic(err)
		}
	}
}
