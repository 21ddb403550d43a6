// Package adminserver answers operators on the private port: reports, digests, backups,
// and the changes that only operators make. It also serves Go's profiles, and it seals
// the cluster's data key under a new secret after an operator has changed the secret.
//
// It receives the parts of the node that it reports on and acts through. Callers have the
// cluster's secret and may do everything, but it checks itself as much as possible: a
// removal is decided on the configuration that it changes. Package admin defines the
// requests and answers.
package adminserver
