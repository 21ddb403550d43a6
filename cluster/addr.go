package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"
)

const (
	// MaxAddrsPerName bounds how many addresses of one host name are tried.
	MaxAddrsPerName = 16
	lookupTimeout   = 5 * time.Second // bounds one host name lookup
	maxHostLen      = 253             // DNS name
)

// lookupFunc resolves a host name to addresses, as net.Resolver.LookupHost.
type lookupFunc func(ctx context.Context, host string) ([]string, error)

// checkLoopback returns an error unless addr, host:port or a host alone, resolves to loopback
// addresses only. Nodes without a secret file may use no others.
func checkLoopback(ctx context.Context, lookup lookupFunc, addr string) error {
	const remedy = "without a secret file only loopback addresses are allowed; set --secret-file or use 127.0.0.1"
	host, _, err := splitAddr(addr)
	if err != nil {
		return err
	}
	if host == "" {
		return fmt.Errorf("address %q stands for all interfaces: %s", addr, remedy)
	}
	ips, err := lookupIPs(ctx, lookup, host)
	if err != nil {
		return fmt.Errorf("address %q: %w", addr, err)
	}
	for _, ip := range ips {
		if !ip.IsLoopback() {
			return fmt.Errorf("address %q is not a loopback address (%s): %s", addr, ip, remedy)
		}
	}
	return nil
}

// lookupIPs returns at least one and at most MaxAddrsPerName addresses.
func lookupIPs(ctx context.Context, lookup lookupFunc, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	names, err := lookup(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("look up %q: %w", host, err)
	}
	ips := make([]netip.Addr, 0, len(names))
	for _, name := range names {
		if ip, err := netip.ParseAddr(name); err == nil && len(ips) < MaxAddrsPerName {
			ips = append(ips, ip.Unmap())
		}
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("look up %q: no addresses", host)
	}
	return ips, nil
}

// splitAddr splits host:port, or a host alone. The port is 0 if addr is a host alone.
func splitAddr(addr string) (host string, port uint16, err error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		var malformed *net.AddrError
		if errors.As(err, &malformed) && malformed.Err == "missing port in address" {
			return addr, 0, nil
		}
		return "", 0, fmt.Errorf("address %q: %w", addr, err)
	}
	n, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: port %q is not a number from 0 to 65535", addr, portText)
	}
	return host, uint16(n), nil
}

func joinAddr(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// AdvertiseAddr returns the host:port that other nodes dial for a listener. The bound
// address supplies the port that advertise lacks, and all of it if advertise is "".
func AdvertiseAddr(advertise string, bound net.Addr) (string, error) {
	addr, err := netip.ParseAddrPort(bound.String())
	if err != nil {
		return "", fmt.Errorf("bound address %q: %w", bound, err)
	}
	if advertise == "" {
		return joinAddr(addr.Addr().Unmap().String(), addr.Port()), nil
	}
	host, port, err := splitAddr(advertise)
	if err != nil {
		return "", fmt.Errorf("advertise %w", err)
	}
	return joinAddr(host, cmp.Or(port, addr.Port())), nil
}

func checkAllLoopback(lookup lookupFunc, addrs ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	var problems []error
	for _, addr := range addrs {
		if addr != "" {
			problems = append(problems, checkLoopback(ctx, lookup, addr))
		}
	}
	return errors.Join(problems...)
}
