// Package poll waits for what the scripts cannot be told of.
package poll

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Until tries until it works, the deadline passes, or the run is interrupted.
func Until(ctx context.Context, timeout, every time.Duration, try func() error) error {
	deadline := time.Now().Add(timeout)
	for {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v: %w", timeout, err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(every):
		}
	}
}
