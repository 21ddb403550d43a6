package fsm

// Abandon releases the state without flushing it: what is on disk afterwards is
// what a crash would have left. Nothing may be applied meanwhile.
func (m *Machine) Abandon() error {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	if m.closed {
		return nil
	}
	return m.release()
}
