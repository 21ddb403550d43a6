package resource

import (
	"testing"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
)

// FuzzDecodeEntry holds that every body is either rejected or checked, and that the
// example of a reading passes the same rules.
func FuzzDecodeEntry(f *testing.F) {
	f.Add("application/json", []byte(`{"body":"Hello","tags":["a"],"reply_to":"e1","relation":"retraction"}`))
	f.Add("", []byte(`{"body":1,"agent":"--","title":"x","request_id":"short","kind":null}`))
	f.Add("application/x-www-form-urlencoded", []byte("body=a&tags=a,b,,c&channel=%00x&agent=%ff"))
	f.Add("text/plain", []byte("x\r\ny\x00"))
	f.Add("", []byte(`{"BodY":"00000","tAgs":""}`))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		doc, err := wire.DecodeBody(contentType, body)
		if err != nil {
			if op.ToError(err) == nil {
				t.Fatalf("an error that no client may see: %v", err)
			}
			return
		}
		checkReading(t, &doc, &postRules)
		checkReading(t, &doc, &queryRules)
	})
}
