"""Tables of lines, each a fact about somebody, become columns, outcomes and reports."""
