"""Results in, figures, tables and pages out; nothing here runs a simulation."""
