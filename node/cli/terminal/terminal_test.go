package terminal

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestLogFormats(t *testing.T) {
	for format, want := range map[string]string{"json": `{"time"`, "text": "time=", "auto": `{"time"`} {
		var out bytes.Buffer
		logger := must.Get(NewLogger(&out, "warn", format))(t)
		logger.Info("hidden")
		check.Equal(t, out.Len(), 0, "%s: %s", format, &out)
		logger.Warn("shown", slog.Int("n", 1))
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: %s", format, &out)
		}
	}
	check.Fails(NewLogger(os.Stderr, "loud", "auto"))(t, "a level that is none is accepted")
}
