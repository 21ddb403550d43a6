// Package kubernetes checks the manifests in scripts/deploy/kubernetes.
package kubernetes
