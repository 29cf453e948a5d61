"""Events of a group, distributed over its rows."""
