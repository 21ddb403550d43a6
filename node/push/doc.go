// Package push sends events to the https receivers that agents have named, and
// asks receivers whether they want them. It reaches public addresses alone,
// follows nothing, keeps nothing of what a receiver says, and signs what it
// sends as the Standard Webhooks specification has it.
package push
