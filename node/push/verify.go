package push

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxChallengeAt is how many characters of an answer the challenge is looked for in.
const MaxChallengeAt = 2000

// verifyType is the type of the message that carries a challenge.
const verifyType = "common.verify"

// verification is the body of a challenge.
type verification struct {
	Type      string    `json:"type"`
	Agent     string    `json:"agent"`
	Decoy     string    `json:"decoy"` // what repeats it repeats anything
	Challenge string    `json:"challenge"`
	ReplyWith replyWith `json:"reply_with"`
}

// replyWith is a body that passes.
type replyWith struct {
	Challenge string `json:"challenge"`
}

// Verify asks a receiver once whether it takes events for an agent: it has to
// answer with a success and the challenge in its body, without the decoy beside it:
// a service that sends back whatever it gets has not agreed to anything.
func (c *Client) Verify(ctx context.Context, rawURL, agent string, keys []ed25519.PrivateKey) Answer {
	challenge, decoy := rand.Text(), rand.Text()
	body, err := json.Marshal(verification{verifyType, agent, decoy, challenge, replyWith{challenge}})
	if err != nil {
		return Answer{Reason: RefusedURL} // texts always encode
	}
	a := c.Send(ctx, rawURL, Message{ID: "verify_" + rand.Text(), Body: body, Keys: keys})
	switch {
	case a.Reason != "":
	case !bytes.Contains(firstCharacters(a.body, MaxChallengeAt), []byte(challenge)):
		a.Reason = ChallengeMissing
	case bytes.Contains(a.body, []byte(decoy)):
		a.Reason = DecoyRepeated
	}
	a.body = nil
	return a
}

// firstCharacters cuts a text after n characters.
func firstCharacters(s []byte, n int) []byte {
	for i := range string(s) {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

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
