package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
)

// MaxAnswerBytes bounds an answer on the private port that is read as a whole.
const MaxAnswerBytes = 4 << 20

// Send sends a request to a server's private port: a POST with JSON, or a GET where
// request is nil. The client is a Port's, or an OperatorClient, for which the server id
// stands for nothing. The caller closes the response's body.
func Send(ctx context.Context, client *http.Client, serverID, path string, request any) (*http.Response, error) {
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if request != nil {
		data, err := json.Marshal(request)
		if err != nil {
			return nil, fmt.Errorf("call %s of %s: %w", path, serverID, err)
		}
		method, body = http.MethodPost, bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+serverID+path, body)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// Ask sends a request as Send does and reads its JSON answer. An answer whose status
// is not 200 is an error.
func Ask[Answer any](ctx context.Context, client *http.Client, serverID, path string, request any) (Answer, error) {
	var answer Answer
	res, err := Send(ctx, client, serverID, path, request)
	if err != nil {
		return answer, err
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	if res.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("%s answered %s", serverID, res.Status)
	}
	if err := ReadAnswer(res.Body, &answer); err != nil {
		return answer, fmt.Errorf("answer of %s: %w", serverID, err)
	}
	return answer, nil
}

// ReadAnswer reads a JSON answer of at most MaxAnswerBytes.
func ReadAnswer(r io.Reader, answer any) error {
	data, err := io.ReadAll(io.LimitReader(r, MaxAnswerBytes+1))
	if err != nil {
		return err
	}
	if len(data) > MaxAnswerBytes {
		return fmt.Errorf("it has more than %d bytes", MaxAnswerBytes)
	}
	return json.Unmarshal(data, answer)
}

// Reply writes a JSON answer on the private port.
func Reply(w http.ResponseWriter, logger *slog.Logger, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		logger.Debug("an answer on the private port was lost", "error", err)
	}
}
