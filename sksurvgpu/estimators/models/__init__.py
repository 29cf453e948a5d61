"""What the rows of each likelihood are: how they are read, in one place or in many."""
