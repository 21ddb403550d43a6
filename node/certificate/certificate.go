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

// Load reads a certificate with its chain, and its private key, both in PEM form. now is the
// clock that expiry is compared with.
func Load(certFile, keyFile string, logger *slog.Logger, now func() time.Time) (*Keeper, error) {
	k := &Keeper{certFile: certFile, keyFile: keyFile, logger: logger, now: now}
	pair, err := k.read()
	if err != nil {
		return nil, err
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
	if now := k.now(); err == nil && now.After(pair.Leaf.NotAfter) && !now.After(k.current.Load().Leaf.NotAfter) {
		err = fmt.Errorf("%s: the certificate expired on %s, and the one in use is valid; renew it", k.certFile, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
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
		err = checkPair(pair, k.now())
	}
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w; give a certificate with its chain and its private key, both in PEM form", k.certFile, k.keyFile, err)
	}
	return &pair, nil
}

// checkPair rejects a certificate that no client would accept. An expired one may be all that
// there is, and a node that cannot start would be worse. It does not replace a valid one.
func checkPair(pair tls.Certificate, now time.Time) error {
	leaf := pair.Leaf
	switch {
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate is not valid before %s", leaf.NotBefore.UTC().Format(time.RFC3339))
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
	case left < ExpiresSoon:
		list = append(list, fmt.Sprintf("its certificate expires in %d days; replace %s", int(left/(24*time.Hour)), k.certFile))
	}
	return list
}
