package push

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks, and the name of its signatures by ed25519.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"

	signatureVersion = "v1a"
)

// sign sets the headers of a message: its id, when it was sent, and one
// signature by each key over "id.seconds.body". An id holds no full stop.
func sign(h http.Header, keys []ed25519.PrivateKey, id string, at time.Time, body []byte) {
	seconds := strconv.FormatInt(at.Unix(), 10)
	signed := append([]byte(id+"."+seconds+"."), body...)
	signatures := make([]string, len(keys))
	for i, key := range keys {
		signatures[i] = signatureVersion + "," + base64.StdEncoding.EncodeToString(ed25519.Sign(key, signed))
	}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, seconds)
	h.Set(HeaderSignature, strings.Join(signatures, " "))
}
