package dev

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
)

// secretBytes is how much randomness the generated cluster secret holds.
const secretBytes = 32

// ensureSecret makes a cluster secret that only this user can read, unless
// there is one.
func ensureSecret(path string) error {
	raw := make([]byte, secretBytes)
	rand.Read(raw) // never fails
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(base64.RawURLEncoding.EncodeToString(raw) + "\n")
	return errors.Join(err, f.Close())
}

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
