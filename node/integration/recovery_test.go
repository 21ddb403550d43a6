package integration

// recover returns the keys that a recovery key gives at a node.
func (c *testCluster) recover(i int, agent, recoveryKey string) registered {
	c.t.Helper()
	var a registered
	c.mustPost(i, "/api/agents", map[string]any{"id": agent, "recovery_key": recoveryKey, "request_id": "recover-" + agent}, &a)
	if a.EditKey == "" || a.RecoveryKey == "" {
		c.t.Fatalf("no pair: %+v", a)
	}
	return a
}
