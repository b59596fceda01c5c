"""From a fine simulation to a dataset: coarsening, generation, storage."""
