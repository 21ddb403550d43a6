package poll

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestUntil(t *testing.T) {
	never := errors.New("never")
	tries := 0
	if err := Until(t.Context(), time.Minute, time.Nanosecond, func() error {
		if tries++; tries < 3 {
			return never
		}
		return nil
	}); err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	if err := Until(t.Context(), 0, time.Minute, func() error { return never }); !errors.Is(err, never) {
		t.Errorf("after the deadline: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Until(ctx, time.Hour, time.Hour, func() error { return never }); !errors.Is(err, never) || !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
