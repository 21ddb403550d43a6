package datakey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/loop"
)

// resealInterval is how often the leader looks whether the data key has to be
// sealed anew.
const resealInterval = time.Second

// KeepSealed seals the data key under the secret in use when that has changed,
// until ctx ends: for as long as this node leads. Then the former secret can go.
func (k *Keeper) KeepSealed(ctx context.Context) {
	said := ""
	loop.Every(ctx, resealInterval, func(ctx context.Context) {
		if err := k.reseal(ctx); err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			k.cfg.Logger.WarnContext(ctx, "the data key was not sealed under the new secret; it is tried again", "error", err)
		}
	})
}

// reseal seals the data key under the secret in use, unless it is already. Every
// server of the configuration must say that it has that secret: it could not open
// the key else.
func (k *Keeper) reseal(ctx context.Context) error {
	_, sealed, _ := k.stored()
	if len(sealed) == 0 || !k.cfg.Secrets.NeedsReseal(sealed) {
		return nil
	}
	inUse := k.cfg.Secrets.KeyIDs()[0]
	if err := checkAllHave(k.cfg.Servers(ctx), inUse); err != nil {
		return err
	}
	key, err := k.cfg.Secrets.OpenDataKey(sealed)
	if err != nil {
		return err
	}
	anew, err := k.cfg.Secrets.SealDataKey(key)
	if err != nil {
		return err
	}
	if err := k.cfg.Propose(ctx, &command.Reseal{Former: sealed, SealedDataKey: anew}); err != nil {
		return err
	}
	k.cfg.Logger.InfoContext(ctx, "sealed the data key under another secret", "secret", cluster.SealedUnder(anew))
	return nil
}

// checkAllHave lists the servers that do not have a secret, or cannot be asked.
func checkAllHave(servers []admin.Server, secret string) error {
	var lacking []error
	for _, s := range servers {
		switch {
		case s.Report == nil && s.Part != admin.Outside:
			lacking = append(lacking, fmt.Errorf("%s does not answer; start it, or remove it", s.ID))
		case s.Report != nil && !slices.Contains(s.Report.Secrets, secret):
			lacking = append(lacking, fmt.Errorf("%s does not have the secret %s yet", s.ID, secret))
		}
	}
	return errors.Join(lacking...)
}
