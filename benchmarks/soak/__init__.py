"""A gateway under load for minutes while the servers behind it are killed and started again at random."""
