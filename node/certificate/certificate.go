// Package certificate keeps the TLS certificate of the public HTTPS service, which follows its
// files.
package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/node/loop"
)

const (
	// reloadInterval is how often the files are read again.
	reloadInterval = 2 * time.Second
	// ExpiresSoon is how long before its end a certificate is a problem.
	ExpiresSoon = 14 * 24 * time.Hour
)

// Keeper holds the certificate in use. It is safe for concurrent use.
type Keeper struct {
	certFile, keyFile string
	logger            *slog.Logger
	now               func() time.Time
	current           atomic.Pointer[tls.Certificate]
	problem           atomic.Pointer[string]
}

// Load reads a certificate with its chain, and its private key, both in PEM form. A certificate
// that has expired or is not valid yet is used, with a warning in the log: it may be the only one,
// and a node that does not start would be worse. now is the clock that its times are compared with.
func Load(certFile, keyFile string, logger *slog.Logger, now func() time.Time) (*Keeper, error) {
	k := &Keeper{certFile: certFile, keyFile: keyFile, logger: logger, now: now}
	pair, err := k.read()
	if err != nil {
		return nil, err
	}
	if problem := outsideItsTime(pair.Leaf, now()); problem != "" {
		logger.Warn("clients reject the certificate at this time; it is used until its files hold another one", "file", certFile, "problem", problem)
	}
	k.current.Store(pair)
	return k, nil
}

// Get returns the certificate for a handshake.
func (k *Keeper) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return k.current.Load(), nil }

// Watch reads the files again in an interval until ctx ends. A pair that cannot be used leaves
// the former one in use. Each new problem is logged once.
func (k *Keeper) Watch(ctx context.Context) { loop.Every(ctx, reloadInterval, k.reload) }

func (k *Keeper) reload(ctx context.Context) {
	pair, err := k.read()
	if err == nil && outsideItsTime(k.current.Load().Leaf, k.now()) == "" {
		if problem := outsideItsTime(pair.Leaf, k.now()); problem != "" {
			err = fmt.Errorf("%s: %s, and the one in use is valid; renew it, or correct the clock of this machine", k.certFile, problem)
		}
	}
	if err != nil {
		problem := err.Error()
		if former := k.problem.Swap(&problem); former == nil || *former != problem {
			k.logger.WarnContext(ctx, "certificate not reloaded, the former one stays in use", "error", err)
		}
		return
	}
	k.problem.Store(nil)
	if former := k.current.Load(); !slices.EqualFunc(pair.Certificate, former.Certificate, bytes.Equal) { // with the chain
		k.current.Store(pair)
		k.logger.InfoContext(ctx, "certificate changed", "until", pair.Leaf.NotAfter)
	}
}

// read returns the pair of the files. Its error names the files and the remedy.
func (k *Keeper) read() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	if err == nil {
		err = checkPair(pair)
	}
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w; give a certificate with its chain and its private key, both in PEM form", k.certFile, k.keyFile, err)
	}
	return &pair, nil
}

// outsideItsTime returns the reason why clients reject a certificate at this time, or "".
func outsideItsTime(leaf *x509.Certificate, now time.Time) string {
	switch {
	case now.Before(leaf.NotBefore):
		return "the certificate is not valid before " + leaf.NotBefore.UTC().Format(time.RFC3339)
	case now.After(leaf.NotAfter):
		return "the certificate expired on " + leaf.NotAfter.UTC().Format(time.RFC3339)
	}
	return ""
}

// checkPair rejects a certificate that no client would accept at any time.
func checkPair(pair tls.Certificate) error {
	leaf := pair.Leaf
	switch {
	case len(leaf.DNSNames) == 0 && len(leaf.IPAddresses) == 0:
		return errors.New("the certificate names no host")
	case len(leaf.ExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny):
		return errors.New("the certificate is not for servers")
	}
	return nil
}

// Expiry returns the end of the certificate in use. A nil Keeper returns the zero time.
func (k *Keeper) Expiry() time.Time {
	if k == nil {
		return time.Time{}
	}
	return k.current.Load().Leaf.NotAfter
}

// Rejected returns the problem of the files if they hold a pair that cannot be used, or "".
func (k *Keeper) Rejected() string {
	if k == nil {
		return ""
	}
	if problem := k.problem.Load(); problem != nil {
		return *problem
	}
	return ""
}

// Warnings describes the problems of the certificate for operators. A nil Keeper has no problems.
func (k *Keeper) Warnings() (list []string) {
	if k == nil {
		return nil
	}
	if problem := k.Rejected(); problem != "" {
		list = append(list, "its new certificate cannot be used, and the former one stays in use: "+problem)
	}
	switch left := k.Expiry().Sub(k.now()); {
	case left <= 0:
		list = append(list, "its certificate has expired: clients reject it; replace "+k.certFile)
	case k.now().Before(k.current.Load().Leaf.NotBefore):
		list = append(list, outsideItsTime(k.current.Load().Leaf, k.now())+": clients reject it; correct the clock of this machine, or replace "+k.certFile)
	case left < ExpiresSoon:
		list = append(list, fmt.Sprintf("its certificate expires in %d days; replace %s", int(left/(24*time.Hour)), k.certFile))
	}
	return list
}
