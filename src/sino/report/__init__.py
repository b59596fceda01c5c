"""Pictures and tables. They read arrays and result files; they never run a model."""
