// Package push sends events to the https receivers of agents, and verifies receivers. It
// connects to public addresses only, follows no redirects, stores no response bodies, and
// signs its requests according to the Standard Webhooks specification.
package push
