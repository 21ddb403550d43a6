package fsm

type txn struct{}

func (*Lead) op() Op    { return OpLead }
func (*Init) op() Op    { return OpInit }
func (*Publish) op() Op { return OpPublish }

func (*Lead) apply(*txn) Result    { return Result{Outcome: OutcomeDone} }
func (*Init) apply(*txn) Result    { return Result{Outcome: OutcomeDone} }
func (*Publish) apply(*txn) Result { return Result{Outcome: OutcomeDone} }
