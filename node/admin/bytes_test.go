package admin

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestBytesText(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 200 << 20: "200 MiB", 3 << 40: "3.0 TiB"} {
		check.Equal(t, BytesText(n), want, "%d", n)
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "17": 17, "3KiB": 3 << 10, "16MiB": 16 << 20, "1GiB": 1 << 30, "1024TiB": 1 << 50} {
		check.Equal(t, must.Get(ParseBytes(text, command.MaxSettingBytes))(t), want, "parse bytes of %s", text)
	}
	for _, text := range []string{"", "-1", "1.5GiB", "GiB", "1 GiB", "1025TiB", "20000000000000000000", "5%"} {
		check.Fails(ParseBytes(text, command.MaxSettingBytes))(t, "parse %q", text)
	}
}
