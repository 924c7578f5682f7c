"""Transaction status, the gate, the deferred spool."""
