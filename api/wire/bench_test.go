package wire

import (
	"strconv"
	"strings"
	"testing"
)

// BenchmarkDecodeBody measures the bodies of an ordinary entry and of a long one.
func BenchmarkDecodeBody(b *testing.B) {
	for _, size := range []int{1, 20} {
		line := `It said \"no\" — and then nothing. ` + "\\n"
		body := []byte(`{"agent":"ada","title":"Notes","tags":["a","b","c"],"reply_to":"e12","request_id":"abcdefgh","body":"` +
			strings.Repeat(line, size<<10/len(line)) + `"}`)
		b.Run(strconv.Itoa(size)+"KB", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := DecodeBody(MediaJSON, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
