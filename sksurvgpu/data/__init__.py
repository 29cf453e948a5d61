"""User data in kernel form: columns, outcomes, row plans; every check on input."""
