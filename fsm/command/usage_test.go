package command_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestUsageRoundTrip(t *testing.T) {
	full := fsmtest.AddCalls(3, 20_000, 7)
	full.Senders = fsmtest.AddSenders(3, 20_000, command.SurfaceMCP, "x", "y").Senders
	command.CheckRoundTrip(t, full)
}

// TestLargestFoldFits holds that a fold of the largest size is fit for the log.
func TestLargestFoldFits(t *testing.T) {
	c := &command.AddUsage{Boot: fsmtest.Boot1, Number: 1 << 60}
	for range command.MaxUsageRows {
		c.Rows = append(c.Rows, command.UsageRow{
			Day: 1 << 31, Surface: command.SurfaceWeb, Count: command.MaxUsageCount,
			Action: strings.Repeat("a", command.MaxUsageLabel), Client: strings.Repeat("c", command.MaxUsageLabel),
		})
	}
	for i := range command.MaxSenderRows {
		row := command.SenderRow{Day: 1 << 31, Surface: command.SurfaceWeb}
		for j := range command.MaxSenderRegisters / command.MaxSenderRows {
			row.Registers = command.AppendRegister(row.Registers, i*command.MaxSenderRows+j, command.MaxRank)
		}
		c.Senders = append(c.Senders, row)
	}
	data := must.Get(command.EncodeGroup(command.Group{Boot: fsmtest.Boot1, Commands: []command.Command{{Seq: 1, Payload: c}}}))(t)
	if err := command.Check(c); err != nil || len(data) > command.MaxBatchBytes {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// TestUsageIsChecked breaks one bound at a time.
func TestUsageIsChecked(t *testing.T) {
	for name, change := range map[string]func(*command.AddUsage){
		"no run":    func(c *command.AddUsage) { c.Boot = command.BootID{} },
		"no number": func(c *command.AddUsage) { c.Number = 0 },
		"rows":      func(c *command.AddUsage) { c.Rows = slices.Repeat(c.Rows, command.MaxUsageRows+1) },
		"surface":   func(c *command.AddUsage) { c.Rows[0].Surface = command.SurfaceWeb + 1 },
		"surface 0": func(c *command.AddUsage) { c.Rows[0].Surface = 0 },
		"action":    func(c *command.AddUsage) { c.Rows[0].Action = "" },
		"client":    func(c *command.AddUsage) { c.Rows[0].Client = "192.0.2.1, a proxy" },
		"long":      func(c *command.AddUsage) { c.Rows[0].Client = strings.Repeat("x", command.MaxUsageLabel+1) },
		"no count":  func(c *command.AddUsage) { c.Rows[0].Count = 0 },
		"count":     func(c *command.AddUsage) { c.Rows[0].Count = command.MaxUsageCount + 1 },
		"senders": func(c *command.AddUsage) {
			c.Senders = slices.Repeat([]command.SenderRow{{Surface: command.SurfaceAPI}}, command.MaxSenderRows+1)
		},
		"senders' surface": func(c *command.AddUsage) { c.Senders = []command.SenderRow{{}} },
		"half a register": func(c *command.AddUsage) {
			c.Senders = []command.SenderRow{{Surface: command.SurfaceAPI, Registers: []byte{0, 1}}}
		},
		"register": func(c *command.AddUsage) {
			c.Senders = []command.SenderRow{{Surface: command.SurfaceAPI, Registers: command.AppendRegister(nil, command.SketchRegisters, 1)}}
		},
		"rank 0": func(c *command.AddUsage) {
			c.Senders = []command.SenderRow{{Surface: command.SurfaceAPI, Registers: command.AppendRegister(nil, 0, 0)}}
		},
		"rank": func(c *command.AddUsage) {
			c.Senders = []command.SenderRow{{Surface: command.SurfaceAPI, Registers: command.AppendRegister(nil, 0, command.MaxRank+1)}}
		},
		"registers": func(c *command.AddUsage) {
			all := bytes.Repeat(command.AppendRegister(nil, 0, 1), command.MaxSenderRegisters+1)
			c.Senders = []command.SenderRow{{Surface: command.SurfaceAPI, Registers: all}}
		},
	} {
		c := fsmtest.AddCalls(1, 0, 1)
		must.Do(t, command.Check(c))
		change(c)
		check.Fails(command.Check(c))(t, "%s: check", name)
	}
}
