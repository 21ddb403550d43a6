package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
)

// checkPorts tries to listen on every address of every member, and lists all
// that are not to be had.
func checkPorts(ctx context.Context, members []member) error {
	var busy []string
	var config net.ListenConfig
	try := func(network, addr, what string) {
		var err error
		if network == "udp" {
			var c net.PacketConn
			if c, err = config.ListenPacket(ctx, network, addr); err == nil {
				err = c.Close()
			}
		} else {
			var l net.Listener
			if l, err = config.Listen(ctx, network, addr); err == nil {
				err = l.Close()
			}
		}
		if err != nil {
			busy = append(busy, fmt.Sprintf("  - %s (%s): %v", addr, what, reason(err)))
		}
	}
	for _, m := range members {
		try("tcp", m.http, m.name+" HTTP")
		try("tcp", m.cluster, m.name+" private port")
		try("tcp", m.gossip, m.name+" gossip, TCP")
		try("udp", m.gossip, m.name+" gossip, UDP")
	}
	if len(busy) == 0 {
		return nil
	}
	return fmt.Errorf("these addresses cannot be used (is another `commons dev` running?):\n%s\n"+
		"--http-port, --cluster-port and --gossip-port choose others", strings.Join(busy, "\n"))
}

// reason strips the address, which is already said, from a listening error.
func reason(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}
